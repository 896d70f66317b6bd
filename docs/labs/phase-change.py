# %% [markdown]
# # The phase change
#
# A model of two layers learns to repeat what it has read, and it learns it all at once. This lab
# trains one each time the site is built, beside a model of one layer that reads the same rows.
# What it prints may differ in the last digits from one computer to the next, so the text only
# says what holds on all of them.
#
# A row is a start, `0`, then a block of random tokens that comes again and again. How long the
# block is differs from row to row.

# %%
import torch
from tinyattn import (
    Config, Schedule, Transformer, draw_curve, draw_pattern, induction_score, repeats, train,
)
from tinyattn.learning import next_token_loss

def draw(generator):
    return repeats(64, 32, 24, periods=(5, 12), generator=generator)[0]

rows, first, period = repeats(
    64, 32, 24, periods=(5, 12), generator=torch.Generator().manual_seed(0), before=False
)
print(" ".join(map(str, rows[0].tolist())))

# %% [markdown]
# The first copy is random, so nobody can foresee it. From the second copy on, every token is
# known to a reader who finds where it stood before, and looks one further. The loss there is what
# we measure: rows that were never trained on, from the second token of the second copy.

# %%
second = torch.arange(1, 32) > (first + period).unsqueeze(-1)

def on_repeats(model):
    return float(next_token_loss(model, rows)[second].mean())

def trained(n_layers, draw):
    config = Config(64, 16, 4, n_layers, d_vocab=24, n_ctx=31, positions="shortformer")
    model = Transformer(config)
    history = train(
        model, draw, Schedule(200), measures={"loss on repeats": on_repeats}, every=10
    )
    return model, history

two, way_of_two = trained(2, draw)
one, way_of_one = trained(1, draw)
curves = {
    "two layers": way_of_two.values["loss on repeats"],
    "one layer": way_of_one.values["loss on repeats"],
}
draw_curve(way_of_two.steps, curves, mark=way_of_two.steepest("loss on repeats"))

# %% [markdown]
# The shaded stretch is where the loss of two layers falls fastest. Before it the two models are
# alike: both learn which tokens are in the row at all. Only one of them learns which comes next.

# %%
assert curves["two layers"][-1] < 0.5
assert curves["one layer"][-1] > 1

# %% [markdown]
# ## What the second layer does
#
# A head of the second layer reads what followed the earlier copy. In the grid the rows read and
# the columns are read: the stripe is one block long.

# %%
row = rows[0, :-1]
A = two.run(row).pattern(1)
scores = induction_score(A, row)
assert scores.max() > 0.5
draw_pattern(A[scores.argmax()], [str(token) for token in row.tolist()])

# %% [markdown]
# ## The loss of each token
#
# Token by token, along one row: high in the first copy, low from the second on.

# %%
losses = next_token_loss(two, rows).detach()
first_copy = losses[~second].mean()
later = losses[second].mean()
assert first_copy > 2 > later

# %% [markdown]
# ## The trap
#
# Let every block be as long as every other. One layer then scores as an induction head does: it
# looks a fixed number of positions back, and never at the tokens.

# %%
def same_length(generator):
    return repeats(64, 32, 24, periods=(8, 8), generator=generator, before=False)[0]

trapped, _ = trained(1, same_length)
alike = same_length(torch.Generator().manual_seed(1))[:, :-1]
other = repeats(
    64, 31, 24, periods=(6, 6), generator=torch.Generator().manual_seed(1), before=False
)[0]
good = induction_score(trapped.run(alike).pattern(0), alike).max()
bad = induction_score(trapped.run(other).pattern(0), other).max()
assert good > 0.8
assert bad < 0.3

# %% [markdown]
# On blocks of the length it has learnt the score is that of an induction head. On blocks of
# another length nothing is left of it. So a score is measured on lengths that a model could not
# have learnt by heart.
