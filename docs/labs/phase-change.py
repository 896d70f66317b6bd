# %% [markdown]
# # The phase change
#
# A model of two layers learns to repeat what it has read, and most of it within a few steps of
# training. This lab trains one when the site is built, beside a model of one layer that reads the
# same rows. Its numbers may differ in the last digits from one computer to the next, so the text
# only says what holds on all of them, and checks it.
#
# A row is a start token, `0`, then a block of random tokens that comes again and again. How long
# the block is differs from row to row. Nothing else stands before the block, which is what
# `before=False` says.

# %%
import torch
from tinyattn import (
    Config, Schedule, Transformer, draw_curve, draw_pattern, induction_score, repeats, train,
)
from tinyattn.learning import next_token_loss

def draw(generator, periods=(5, 12), batch=64):
    return repeats(batch, 32, 24, periods=periods, generator=generator, before=False)

def fresh(seed):
    return torch.Generator().manual_seed(seed)

rows, first, period = draw(fresh(0))
print(" ".join(map(str, rows[0].tolist())))

# %% [markdown]
# The first copy is random, so nobody can foresee it. From the second copy on, every token is
# known to a reader who finds where it stood before, and looks one further. The **loss on repeats**
# is the loss there, from the second token of the second copy on: the mean of minus the logarithm of
# the chance of the right token, in nats. It is measured on rows that are not trained on.
#
# A second set of rows, all with blocks of eight tokens, says where in a row the loss is. It is kept
# each time the loss is measured.
#
# Both models are attention only. Positions are added to what queries and keys read, and to nothing
# else ("shortformer").

# %%
second = torch.arange(1, 32) > (first + period).unsqueeze(-1)
eights = draw(fresh(1), periods=(8, 8), batch=32)[0]
by_place = []

def on_repeats(model):
    by_place.append(next_token_loss(model, eights).mean(dim=0))
    return next_token_loss(model, rows)[second].mean().item()

def trained(n_layers, steps=100, periods=(5, 12)):
    by_place.clear()
    config = Config(64, 16, 4, n_layers, d_vocab=24, n_ctx=31, positions="shortformer")
    model = Transformer(config, generator=fresh(0))
    history = train(
        model,
        lambda generator: draw(generator, periods)[0],
        Schedule(steps, rate=0.015, warm_up=20),
        measures={"loss on repeats": on_repeats},
        every=5,
    )
    return model, history

one, way_of_one = trained(1)
two, way_of_two = trained(2)
curves = {
    "two layers": way_of_two.values["loss on repeats"],
    "one layer": way_of_one.values["loss on repeats"],
}
change = way_of_two.steepest("loss on repeats")
draw_curve(way_of_two.steps, curves, mark=change)

# %% [markdown]
# The shaded stretch is where the loss of two layers falls fastest: half of its whole fall happens
# there. Before it the two lines stay close. Both models learn which tokens are in the row at all.
# Only one of them learns which comes next.

# %%
assert curves["two layers"][-1] < 0.5
assert curves["one layer"][-1] > 1
assert change[1] - change[0] <= 50
early = way_of_two.steps.index(20)
assert abs(curves["two layers"][early] - curves["one layer"][early]) < 0.5

# %% [markdown]
# ## The loss by position, before and after
#
# Here is the loss of the model of two layers at each position of a row, at the step where the
# stretch begins and at the end. The block is eight tokens long.

# %%
before, after = by_place[way_of_two.steps.index(change[0])], by_place[-1]
draw_curve(
    range(1, 32),
    {"before": before.tolist(), "after": after.tolist()},
    axes=("position", "nats"),
)

# %% [markdown]
# Before, later copies cost somewhat less than the first: the model has an idea which tokens are in
# the row, and none of their order. Afterwards the line drops to near zero where the second copy
# begins to be known, and stays there. The first copy stays near an even guess: nobody can know it.

# %%
known = torch.arange(1, 32) > 9
assert before[known].mean() < before[~known].mean()
assert after[known].max() < before[known].min()
assert after[~known].mean() > 2 > after[known].mean()

# %% [markdown]
# ## Token by token
#
# One row of the same kind, three copies of its block: the chance that the trained model gave to
# each token before it saw it.

# %%
chances = (-next_token_loss(two, eights[:1])[0].detach()).exp()
for copy in range(3):
    start = 8 * copy
    print(" ".join(f"{chance:.1f}" for chance in chances[start : start + 8].tolist()))

# %% [markdown]
# The first token of the second copy is a guess, as all of the first copy is. From then on the row
# is known.
#
# ## What the second layer does
#
# A head of the second layer reads what followed an earlier copy of its token. How much it does is
# its [induction score](../trained/two-layers.md). In the grid the rows read and the columns are
# read. The second copy makes one stripe. From the third copy on there are two such places or more,
# and a row may read any of them.

# %%
row = eights[0, :-1]
A = two.run(row).pattern(1).detach()
scores = induction_score(A, row)
assert scores.max() > 0.5
draw_pattern(A[scores.argmax()], [str(token) for token in row.tolist()])

# %% [markdown]
# ## The trap
#
# Let every block be as long as every other. One layer then scores as an induction head does: it
# looks a fixed number of positions back, and never at the tokens.

# %%
trapped, _ = trained(1, steps=50, periods=(8, 8))
sixes = draw(fresh(1), periods=(6, 6))[0]

def best_score(tokens):
    return induction_score(trapped.run(tokens[:, :-1]).pattern(0), tokens[:, :-1]).max()

assert best_score(eights) > 0.7
assert best_score(sixes) < 0.3

# %% [markdown]
# On blocks of the length it has learnt the score is that of an induction head. On blocks of
# another length little is left of it. So a score is measured on lengths that a model could not
# have learnt by heart.
#
# [Two layers](../trained/two-layers.md) takes a larger model of this kind apart, and
# [Why two layers](../trained/why-two-layers.md) says why one layer cannot do it.
