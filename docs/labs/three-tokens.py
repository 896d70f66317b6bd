# %% [markdown]
# # Three tokens, many scores
#
# A lab is a script which the site runs each time it is built. This one asks how a row of
# scores becomes a row of weights when the scores grow. The rows read, the columns are read.

# %%
import torch
from tinyattn import causal_mask, pattern, show

tokens = ["The", "cat", "sat"]
scores = torch.tensor([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0], [2.0, 5.0, 3.0]]).log()
A = pattern(scores, causal_mask(3))
print(show(A, rows=tokens, columns=tokens))

# %% [markdown]
# ```output
#       The   cat   sat
# The  1.00  0.00  0.00
# cat  0.75  0.25  0.00
# sat  0.20  0.50  0.30
# ```
#
# *cat* spends 0.75<!-- = A[1, 0] --> of its attention on *The*. Now the same scores, doubled.

# %%
B = pattern(2 * scores, causal_mask(3))
print(show(B, rows=tokens, columns=tokens))

# %% [markdown]
# ```output
#       The   cat   sat
# The  1.00  0.00  0.00
# cat  0.90  0.10  0.00
# sat  0.11  0.66  0.24
# ```
#
# The largest weight of each row grows: for *sat* it was 0.50<!-- = A[2, 1] -->, now it is
# 0.66<!-- = B[2, 1] -->. Doubling every score squares the ratio of two weights, because
# $e^{ab} = (e^a)^b$. A head whose scores are large looks at one token only.
#
# [Reading a pattern](../attention/reading-a-pattern.md) reads such a grid entry by entry.
