"""Learning-rate schedules: closed forms by hand, and PyTorch's numbers."""

import math

import pytest

from singa_core.errors import ArgumentError
from singa_core.opt.schedule import (
    Constant,
    Cosine,
    Exponential,
    OneCycle,
    Piecewise,
    Polynomial,
    StepDecay,
    WarmUp,
    as_schedule,
)

# --- by hand --------------------------------------------------------------------------------------

BY_HAND = {
    "constant": (Constant(0.5), {0: 0.5, 10**9: 0.5}),
    "step decay": (StepDecay(8, every=3, factor=0.5), {0: 8, 2: 8, 3: 4, 5: 4, 6: 2, 30: 2**-7}),
    "exponential": (
        Exponential(8, 0.5, every=2),
        {0: 8, 1: 8 / math.sqrt(2), 2: 4, 4: 2, 20: 2**-7},
    ),
    "cosine": (
        Cosine(3, steps=6, floor=1),  # cos of 0, 60, 90, 120 and 180 degrees: 1, 1/2, 0, -1/2, -1
        {0: 3, 2: 2.5, 3: 2, 4: 1.5, 6: 1, 7: 1, 12: 1, 1000: 1},
    ),
    "cosine of one step": (Cosine(3, steps=1), {0: 3, 1: 0, 2: 0}),
    "cosine upwards": (Cosine(0, steps=2, floor=1), {0: 0, 1: 0.5, 2: 1}),
    "linear": (Polynomial(5, steps=4, floor=1), {0: 5, 1: 4, 3: 2, 4: 1, 9: 1}),
    "square": (Polynomial(16, steps=4, power=2), {0: 16, 1: 9, 2: 4, 3: 1, 4: 0, 5: 0}),
    "piecewise": (Piecewise([2, 5], [3, 2, 1]), {0: 3, 1: 3, 2: 2, 4: 2, 5: 1, 99: 1}),
    "piecewise of one": (Piecewise([], [3]), {0: 3, 99: 3}),
    "warm-up of a number": (WarmUp(4, steps=3), {0: 1, 1: 2, 2: 3, 3: 4, 99: 4}),
    "warm-up from zero": (WarmUp(4, steps=4, start=0), {0: 0, 1: 1, 3: 3, 4: 4}),
    "warm-up, then a cosine": (
        WarmUp(Cosine(2, steps=2), steps=3),
        {0: 0.5, 1: 1, 2: 1.5, 3: 2, 4: 1, 5: 0, 6: 0},
    ),
    "one cycle": (
        OneCycle(8, steps=9, warm_up=1 / 3, rise=2, fall=4),  # up in 2 steps, down in 6
        {0: 4, 1: 6, 2: 8, 4: 6.25, 5: 4.5, 6: 2.75, 8: 1, 9: 1, 99: 1},
    ),
}
POINTS = [(name, step) for name, (_, wanted) in BY_HAND.items() for step in wanted]


@pytest.mark.parametrize(("name", "step"), POINTS)
def test_rates_worked_by_hand(name, step):
    schedule, wanted = BY_HAND[name]
    rate = schedule(step)
    assert type(rate * 1.0) is float
    assert rate == pytest.approx(wanted[step], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", BY_HAND)
def test_ends_are_exact(name):
    """No rounding error makes a rate of 1e-17 out of a floor of 0, or moves the first rate."""
    schedule, wanted = BY_HAND[name]
    first, *_, last = wanted.items()
    for step, rate in (first, last):
        assert schedule(step) == rate


def test_a_schedule_is_a_value():
    assert Cosine(0.1, 10) == Cosine(0.1, 10)
    assert len({WarmUp(Cosine(0.1, 10), 3), WarmUp(Cosine(0.1, 10), 3)}) == 1
    assert repr(WarmUp(Piecewise([5], [0.1, 0.01]), 3)) == (
        "WarmUp(schedule=Piecewise(boundaries=(5,), rates=(0.1, 0.01)), steps=3, start=None)"
    )


# --- PyTorch's numbers ----------------------------------------------------------------------------

RATE = 0.3
AGAINST_TORCH = {
    "StepLR": (StepDecay(RATE, 7, 0.3), lambda s, o: s.StepLR(o, 7, 0.3), 40),
    "ExponentialLR": (Exponential(RATE, 0.9), lambda s, o: s.ExponentialLR(o, 0.9), 40),
    # theirs climbs again after T_max, so it is followed to there only
    "CosineAnnealingLR": (
        Cosine(RATE, 40, 0.01),
        lambda s, o: s.CosineAnnealingLR(o, 40, 0.01),
        40,
    ),
    "PolynomialLR": (Polynomial(RATE, 30, power=2.5), lambda s, o: s.PolynomialLR(o, 30, 2.5), 40),
    "MultiStepLR": (
        Piecewise([3, 11], [RATE, RATE * 0.2, RATE * 0.04]),
        lambda s, o: s.MultiStepLR(o, [3, 11], 0.2),
        40,
    ),
    "LinearLR": (WarmUp(RATE, 9, start=RATE / 3), lambda s, o: s.LinearLR(o, 1 / 3, 1.0, 9), 40),
    "SequentialLR": (
        WarmUp(Exponential(RATE, 0.8), 4),
        lambda s, o: s.SequentialLR(
            o, [s.LinearLR(o, 1 / 5, 1.0, 4), s.ExponentialLR(o, 0.8)], [4]
        ),
        40,
    ),
    "OneCycleLR": (OneCycle(RATE, 40), lambda s, o: s.OneCycleLR(o, RATE, 40), 39),
    "OneCycleLR, all options": (
        OneCycle(RATE, 40, warm_up=0.45, rise=10, fall=100),
        lambda s, o: s.OneCycleLR(o, RATE, 40, pct_start=0.45, div_factor=10, final_div_factor=100),
        39,
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # SequentialLR warns about its own calls
@pytest.mark.parametrize(("ours", "make", "steps"), AGAINST_TORCH.values(), ids=AGAINST_TORCH)
def test_rates_of_pytorch(ours, make, steps):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here (extra `dev`)")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    theirs = make(torch.optim.lr_scheduler, optimizer)
    for step in range(steps + 1):
        assert ours(step) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9, abs=1e-12), step
        if step < steps:
            optimizer.step()
            theirs.step()


# --- what is given --------------------------------------------------------------------------------


def test_numbers_and_functions():
    assert as_schedule(0.1) == Constant(0.1)
    assert as_schedule(0)(5) == 0

    def halves(step):
        return 0.5**step

    assert as_schedule(halves) is halves
    assert WarmUp(halves, 1)(3) == 0.25


REFUSED = {
    "negative": (lambda: as_schedule(-0.1), r"schedule: needs a number 0 <= rate < inf, got -0.1"),
    "infinite": (
        lambda: as_schedule(math.inf),
        r"schedule: needs a number 0 <= rate < inf, got inf",
    ),
    "nan": (lambda: as_schedule(math.nan), r"schedule: needs .*, got nan"),
    "bool": (lambda: as_schedule(True), r"schedule: needs .*, got True"),
    "text": (lambda: as_schedule("cosine"), r"schedule: needs .*, got 'cosine'"),
    "none": (lambda: as_schedule(None), r"schedule: needs .*, got None"),
    "class": (
        lambda: as_schedule(Cosine),
        r"schedule: needs a schedule, got the class Cosine\ntry: Cosine\(\.\.\.\)",
    ),
    "every": (lambda: StepDecay(1, every=0), r"StepDecay: needs an integer every >= 1, got 0"),
    "every float": (
        lambda: StepDecay(1, every=2.0),
        r"StepDecay: needs an integer every >= 1, got 2.0",
    ),
    "factor": (
        lambda: StepDecay(1, 1, factor=1.5),
        r"StepDecay: needs a number 0 < factor <= 1, got 1.5",
    ),
    "factor zero": (
        lambda: Exponential(1, 0),
        r"Exponential: needs a number 0 < factor <= 1, got 0",
    ),
    "steps": (lambda: Cosine(1, steps=0), r"Cosine: needs an integer steps >= 1, got 0"),
    "floor": (lambda: Cosine(1, 5, floor=-1), r"Cosine: needs a number 0 <= floor < inf, got -1"),
    "power": (
        lambda: Polynomial(1, 5, power=0),
        r"Polynomial: needs a number 0 < power < inf, got 0",
    ),
    "order": (
        lambda: Piecewise([5, 2], [1, 2, 3]),
        r"Piecewise: needs boundaries that grow, got \(5, 2\)",
    ),
    "twice": (lambda: Piecewise([2, 2], [1, 2, 3]), r"Piecewise: needs boundaries that grow"),
    "count": (
        lambda: Piecewise([2], [1]),
        r"Piecewise: needs one rate more than boundaries, got 1 rates, 1 boundaries",
    ),
    "boundary": (
        lambda: Piecewise([0], [1, 2]),
        r"Piecewise: needs an integer boundary >= 1, got 0",
    ),
    "rates": (
        lambda: Piecewise([2], [1, -1]),
        r"Piecewise: needs a number 0 <= rate < inf, got -1",
    ),
    "warm-up": (lambda: WarmUp(1, 0), r"WarmUp: needs an integer steps >= 1, got 0"),
    "warm-up start": (lambda: WarmUp(1, 2, start=-1), r"WarmUp: needs a number 0 <= start < inf"),
    "warm-up inner": (lambda: WarmUp(-1, 2), r"schedule: needs a number 0 <= rate < inf, got -1"),
    "cycle": (
        lambda: OneCycle(1, 3),
        r"OneCycle: needs 1 < warm_up \* steps < steps, got warm_up = 0.3, steps = 3",
    ),
    "cycle rise": (
        lambda: OneCycle(1, 10, rise=0.5),
        r"OneCycle: needs a number 1 <= rise < inf, got 0.5",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(make, message):
    with pytest.raises(ArgumentError, match=f"^{message}"):
        make()
