"""Known mistakes, each made in our own code by changing its text.

A negative control should be the real sampler with one thing wrong. So nothing wrong is shipped:
a mutant is a module whose source was edited in one place, compiled afresh and put in the place of
the original for one test. An edit that does not match exactly once is an error, so that controls
cannot rot silently.
"""

import ast
import inspect
import re
import types
from importlib import import_module as module
from itertools import count

import pytest
from numba.core.dispatcher import Dispatcher

from thali._jit import KERNELS, inlined, inner, jit, lean


def mutate(name, edits, **replaced):
    """Return a copy of a module with edited text; ``replaced`` overrides what it imported.

    Compiled functions that the edits do not concern are those of the original, to save the time
    of compiling them again.
    """
    original = module(name)
    text = source = inspect.getsource(original)
    for old, new in edits:
        if source.count(old) != 1:  # no assertion: controls expect those of the tests themselves
            raise LookupError(f"{source.count(old)} places in {name} read {old!r}")
        source = source.replace(old, new)
    source = re.sub(r"from thali\._jit import .*\n", "", source)
    mutant = types.ModuleType(name)
    # Declared as always: otherwise Numba compiles what it needs itself once more. Without a file,
    # nothing is cached.
    number = next(_NUMBERS)
    mutant.__dict__.update(
        {declare.__name__: _renamed(declare, number) for declare in (jit, inner, lean, inlined)}
    )
    mutant.__dict__.update(__file__=original.__file__)
    n_kernels = len(KERNELS)
    for name_, value in replaced.items():  # before and after: definitions may use them at once
        mutant.__dict__[name_] = value
    exec(compile(source, f"<mutant of {name}>", "exec"), mutant.__dict__)
    del KERNELS[n_kernels:]
    mutant.__dict__.update(replaced)
    for same in _unconcerned(text, source, set(replaced)):
        if isinstance(getattr(original, same, None), Dispatcher):
            mutant.__dict__[same] = getattr(original, same)
    return mutant


def one_quickly(mistakes):
    """Return mistakes as parameters of a test, of which only the first is made in quick runs.

    For tests that compare for equality: one mistake shows that they can fail, and each takes
    seconds to compile.
    """
    first, *others = mistakes
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


_NUMBERS = count()


def _renamed(declare, number):
    """Declare functions under another name than those of the original.

    A compiled function is known by its name and a number that begins anew in every process. So a
    mutant could otherwise be taken for an original that another process has compiled and cached.
    """

    def declared(function):
        function.__qualname__ += f"_{number}"
        return declare(function)

    return declared


def _unconcerned(before, after, concerned):
    """Return the names whose definitions, and those of all they use, are the same in two texts."""
    old, new = (_definitions(text) for text in (before, after))
    concerned = concerned | {name for name in old | new if old.get(name) != new.get(name)}
    while more := {name for name, (_, used) in new.items() if used & concerned} - concerned:
        concerned |= more
    return set(new) - concerned


def _definitions(text):
    """Return what a module defines by name: without line numbers, and the names that it uses."""
    found = {}
    for node in ast.parse(text).body:
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined = {node.name}
        else:  # also within an `if` or `try`
            stored = (n for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store))
            defined = {inner.id for inner in stored if isinstance(inner, ast.Name)}
        for name in defined:
            before, used = found.get(name, ("", set()))
            found[name] = before + ast.dump(node), used | names
    return found


def printed_power(patch):
    """The paper's q^L' for the probability that all new codes of a column are zero."""
    edits = [
        (
            "    none_on = (1.0 - density) ** k\n"
            "    some_on = -math.expm1(k * math.log1p(-density))",
            "    none_on = density**k\n    some_on = 1.0 - density**k",
        )
    ]
    mutant = mutate("thali.model.births", edits)
    patch(module("thali.sampler.buffet"), "birth_tables", mutant.birth_tables)


def codes_one_after_another(patch):
    """New codes drawn column after column, each as if the later ones were absent."""
    edits = [
        (
            """            c = of_columns[column] if of_columns.shape[0] else 0
            limit = cover[c, n_new, 0] if is_one else cover[c, n_new, 1]
            if uniform64(key, sweep, _COVER, row, index) >= limit:
                continue
            if is_one:
                tp += 1
            else:
                fp += 1
""",
            "            pass\n",
        ),
        ("            if must and j == n_new - 1:\n", "            if False:\n"),
        (
            "limit = first[n_new - j] if must else plain",
            "limit = (cover[0, 1, 0] if is_one else cover[0, 1, 1]) if must else plain",
        ),
        (
            "                codes[j, w] |= bit\n                must = False\n",
            "                codes[j, w] |= bit\n"
            "                tp += must and is_one\n"
            "                fp += must and not is_one\n"
            "                must = False\n",
        ),
    ]
    births = mutate("thali.engines.cpu.births", edits)
    scan = mutate(
        "thali.engines.cpu.serial",
        [("from thali.engines.cpu.births import draw_codes, draw_count\n", "")],
        draw_codes=births.draw_codes,
        draw_count=births.draw_count,
    )
    patch(module("thali.engines.cpu.engine"), "serial", scan)
    patch(module("thali.engines.cpu.engine"), "birth_kernels", births)
    put_into_blocks(patch, births=births)


def step_by_step(patch):
    """Let small matrices be updated as others are, so that a mistake in doing so is made."""
    patch(module("thali.sampler.small"), "at_hand", lambda *_: None)


def put_into_blocks(patch, **kernels):
    """Let the CPU engine do all blocks of a small matrix with other kernels."""
    mutant = mutate("thali.engines.cpu.blocks", [], **kernels)
    patch(module("thali.engines.cpu.engine"), "blocks", mutant)


ONE_BY_ONE = (
    "target.engine.scan_blocks(stream, blocks, state.factors, tables)",
    "None",
)
"""Small blocks are done one by one, too, so that a mistake in doing so is made."""


def deleted_inside_the_loop(patch):
    """A row's own components deleted while its shared ones are still being updated."""
    edits = [
        (
            "                if not keep[component]:\n                    continue\n",
            "                if not keep[component]:\n"
            "                    active[component] = False\n"
            "                    cover_row(known, row, used, active, once, twice)\n"
            "                    continue\n",
        )
    ]
    patch(module("thali.engines.cpu.engine"), "serial", mutate("thali.engines.cpu.serial", edits))


def creation_order(patch):
    """Components visited in the order of their creation.

    Both places must change: the shuffle before the other factor's update would destroy that order.
    """
    edits = [("        j = np.int64(multiply_high(r, np.uint64(i + 1)))\n", "        j = i\n")]
    patch(module("thali.engines.cpu.engine"), "serial", mutate("thali.engines.cpu.serial", edits))
    edits = [
        (
            "stream.permutation(site_of(Site.ORDER, mode), state.n_components)",
            "np.arange(state.n_components)",
        )
    ]
    patch(module("thali.sampler.chain"), "step", mutate("thali.sampler.step", edits).step)
    step_by_step(patch)


def poisson_at_the_total(patch):
    """Poisson probability of L + L' instead of L' new components."""
    edits = [
        (
            "free_of, prior_of, factors[g], ceiling[g], scores,",
            "free_of, _shifted(prior_of, n_components), factors[g], ceiling[g], scores,",
        ),
        (
            "@jit\ndef scan_rows(",
            """@jit
def _shifted(prior, n):
    return prior[n:] - prior[n]


@jit
def scan_rows(""",
        ),
    ]
    patch(module("thali.engines.cpu.engine"), "serial", mutate("thali.engines.cpu.serial", edits))


def dropped_in_a_parallel_phase(patch):
    """Components without a user outside the block updated too, and dropped when they empty."""
    edits = [
        ONE_BY_ONE,
        ("is_held=block.is_held", "is_held=np.zeros(len(block.sizes), np.bool_)"),
        (
            "    return _with_births(state.with_factor(0, users), births), births.covered",
            "    state = _with_births(state.with_factor(0, users), births)\n"
            "    return state.take(state.factors[0].sizes() > 0), births.covered",
        ),
    ]
    mutant = mutate("thali.sampler.buffet", edits)
    patch(module("thali.sampler.step"), "sweep_blocks", mutant.sweep_blocks)


def dropped_in_a_block_of_tensors(patch):
    """The same for tensors, whose block update holds components without a user outside."""
    edits = [
        ("is_held=block.is_held", "is_held=np.zeros(len(block.sizes), np.bool_)"),
        (
            "    return state.with_factor(0, users)._replace(covered=covered)",
            "    state = state.with_factor(0, users)._replace(covered=covered)\n"
            "    return state.take(state.factors[0].sizes() > 0)",
        ),
    ]
    mutant = mutate("thali.sampler.buffet", edits)
    patch(module("thali.sampler.step"), "sweep_blocks", mutant.sweep_blocks)


def sticks_of_one_row_more(patch):
    """Weights of components drawn as if every component had one row more."""
    edits = [("stick_odds(block.sizes, ", "stick_odds(block.sizes + 1, ")]
    mutant = mutate("thali.sampler.buffet", edits)
    patch(module("thali.sampler.step"), "sweep_blocks", mutant.sweep_blocks)


def wrong_box(file, which, *edit):
    """A move of tensors with one thing wrong."""

    def patched(patch):
        put_move(patch, mutate(f"thali.sampler.moves.{file}", [edit]), which, "TENSORS")

    return patched


def wrong_move_ratio(patch):
    """A death weighed as if the row owned one component more than it does."""
    edits = [("odds[n_own + is_birth]", "odds[n_own + 1]")]
    patch(
        module("thali.engines.cpu.engine"),
        "birth_kernels",
        mutate("thali.engines.cpu.births", edits),
    )


def forgotten_singles(patch):
    """Shared entries drawn as if the row's integrated components were not there."""
    edits = [ONE_BY_ONE, ("singles=block.singles", "singles=None")]
    mutant = mutate("thali.sampler.buffet", edits)
    patch(module("thali.sampler.step"), "sweep_blocks", mutant.sweep_blocks)


def forgotten_prior(patch):
    """Entries drawn from the likelihood alone."""
    edits = [("log_odds(prior[component],", "log_odds(np.int64(0),")]
    mutant = mutate("thali.engines.cpu.horizontal", edits)
    patch(module("thali.engines.cpu.draw_rows"), "horizontal", mutant)
    put_into_blocks(patch, horizontal=mutant)
    step_by_step(patch)


def swapped_counts(patch):
    """The rate of spurious ones drawn from the counts of dropped ones, and the other way round."""
    edits = [
        (
            "draw_rate(a0 + fn, b0 + tn, ",
            "draw_rate(a0 + fp, b0 + tp, ",
        ),
        (
            "draw_rate(a1 + fp, b1 + tp, ",
            "draw_rate(a1 + fn, b1 + tn, ",
        ),
    ]
    draw = mutate("thali.model.noise", edits).UnequalRates.draw
    patch(module("thali.model.noise").UnequalRates, "draw", draw)
    step_by_step(patch)


WRONG_RATIOS = {  # module, what it says, what it should not say
    "split_merge": ("split_merge", "        - log_how\n", ""),
    "anchored": ("anchored", "return chosen - largest - log(total)", "return 0.0"),
    "partner": ("split_merge", "log(n_one + 1) + log(chance)", "log(n_one + 1) - log(n_one)"),
    "guided": ("guided", " - log(n_small + 1) - log_guess", " - log(n_small + 1)"),
    "compound": ("compound", " - log_guess - log_parts", " - log_parts"),
    "reseat": (
        "own_component", "log(alpha) - log(n + 1) if is_birth", "log(alpha) if is_birth"
    ),
    "toggle": ("toggle", "log_rate(n_after, n_rows) - log_rate(n_before, n_rows)", "0.0"),
    "seeded": ("seeded", " - log_how", ""),
    "seed": ("seeded", " - log(n_users) - log(n + is_birth)", " - log(n + is_birth)"),
    # The seed row that was drawn, not all that could have been.
    "residual": (
        "residual_kernels", "largest + log(total) - log(n_rows)", "largest - log(n_rows)"
    ),
}  # fmt: skip


def put_move(patch, mutant, which, table="BUFFET"):
    """Put the move that a mutant module defines in the place of the real one."""
    tries = module("thali.sampler.moves.tries")
    move = getattr(mutant, which)
    patch(tries, table, getattr(tries, table) | {move.name: move})


def wrong_ratio(mistake):
    """A move whose proposal probability is left out of the acceptance ratio, or is wrong."""

    def patched(patch):
        where, *edit = WRONG_RATIOS[mistake]
        mutant = mutate(f"thali.sampler.moves.{where}", [edit])
        if where == "residual_kernels":  # the move itself is in another file
            where = "residual"
            mutant = mutate(f"thali.sampler.moves.{where}", [], add_up=mutant.add_up)
        put_move(patch, mutant, where.upper())

    return patched


def wrong_exchange(patch):
    """A merge and a split at a fixed number of components, whose divisions are not weighed."""
    divisions = (
        "        + log_division(users[first], users[second])\n"
        "        - log_division(pair[0], pair[1])\n"
    )
    mutant = mutate("thali.sampler.moves.exchange", [(divisions, "")])
    put_move(patch, mutant, "EXCHANGE", "FINITE")


def wrong_toggle(patch):
    """Users toggled as if any number of users were equally likely."""
    edit = ("(n_after - n_before) * (log(rate) - log1p(-rate))", "0.0 * log1p(-rate) * log(rate)")
    put_move(patch, mutate("thali.sampler.moves.toggle", [edit]), "TOGGLE", "FINITE")


def wrong_replacement(patch):
    """A component replaced as if what replaces it were always proposed."""
    mutant = mutate("thali.sampler.moves.residual", [("rest.weigh(*old), gained", "0.0, gained")])
    put_move(patch, mutant, "REPLACEMENT", "FINITE")


def short_sight(patch, *edits):
    """Show anchors one word of columns and let one user say more: still exact."""
    short = [("_WORDS = 8", "_WORDS = 1"), ("_ROWS = 256", "_ROWS = 1")]
    put_move(patch, mutate("thali.sampler.moves.anchored", [*short, *edits]), "ANCHORED")


def one_entry(patch, *edits):
    """Draw one other entry of a row together with its own components: still exact."""
    edits = [("MOST_ENTRIES = 8", "MOST_ENTRIES = 1"), *edits]
    put_move(patch, mutate("thali.sampler.moves.own_component", edits), "OWN_COMPONENT")


def one_word_first(patch, *edits):
    """Decide about a row's own component by one word of columns, then by all: still exact."""
    edits = [("_WORDS = 16", "_WORDS = 1"), *edits]
    put_move(patch, mutate("thali.sampler.moves.own_component", edits), "OWN_COMPONENT")


def chosen_entry(patch):
    """The entry that is drawn chosen by what the row uses: a choice with no way back."""
    choice = "        j = i + pick(v, n_shared - i)\n"
    used = (
        choice + "        for other in range(i, n_shared):\n"
        "            if users[shared[other], w] & bit != _ZERO:\n"
        "                j = other\n"
    )
    one_entry(patch, (choice, used))


def tries_by_what_they_change(patch):
    """As many tries as there are components, a number that the tries change."""
    edits = [
        (
            "target.priors.buffet.expected(state.alpha, target.shape[0])",
            "float(state.n_components)",
        ),
        ("_FEW = 10", "_FEW = 0.7"),
    ]
    mutant = mutate("thali.sampler.moves.tries", edits)
    patch(module("thali.sampler.step"), "try_moves", mutant.try_moves)


def block_counted_twice(patch):
    """The columns of the first decision of a move count again in the second."""
    edits = [
        ("+ after.gain(before) - part", "+ after.gain(before)"),
        ("_BLOCK = 128", "_BLOCK = 1"),
    ]
    mutant = mutate("thali.sampler.moves.move", edits)
    patch(module("thali.sampler.moves.move").SumOut, "decide", mutant.SumOut.decide)
    patch(module("thali.sampler.moves.at_once"), "KINDS", {})  # every try decides by itself
