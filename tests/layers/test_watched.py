"""What recordings notice: attributes, lists and dicts in them, swapped layers; and what they do not."""

import copy
from collections import OrderedDict, UserDict, defaultdict, deque
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from singa_core import Layer, Model, Parameter, State, gradients, graph, opt
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError
from singa_core.layer import UnregisteredWarning
from singa_core.layers import Dropout, Lambda, Linear, Sequential
from singa_core.mode import STRUCTURE
from singa_core.watched import WatchedDict, WatchedList, watched


def recorded(layer, x):
    function = GraphFunction(lambda x: layer(x))
    function(x)
    return function


class Configured(Layer):
    def __init__(self):
        self.scale, self.function, self.mask = 2.0, abs, None
        self.steps, self.table = [1.0, 2.0], {"k": 1.0}
        self.pair = ([0.0], {"z": 0.0})

    def forward(self, x):
        x = self.function(x) * self.scale
        for step in self.steps:
            x = x + step
        if self.mask is not None:
            x = x * self.mask
        return x + self.table["k"] + self.pair[0][0] + self.pair[1]["z"]


CHANGES = {
    "number": lambda net, array: setattr(net, "scale", 0.5),
    "number to integer": lambda net, array: setattr(net, "scale", 2),
    "append": lambda net, array: net.steps.append(10.0),
    "extend": lambda net, array: net.steps.extend([1.0, 3.0]),
    "insert": lambda net, array: net.steps.insert(0, 7.0),
    "pop": lambda net, array: net.steps.pop(),
    "remove": lambda net, array: net.steps.remove(2.0),
    "clear": lambda net, array: net.steps.clear(),
    "set item": lambda net, array: net.steps.__setitem__(0, -4.0),
    "set slice": lambda net, array: net.steps.__setitem__(slice(1, None), [5.0, 6.0]),
    "delete item": lambda net, array: net.steps.__delitem__(0),
    "times": lambda net, array: net.steps.__imul__(2),
    "plus": lambda net, array: setattr(net, "steps", net.steps + [3.0]),
    "add in place": lambda net, array: net.steps.__iadd__([3.0]),
    "another list": lambda net, array: setattr(net, "steps", [7.0]),
    "dict item": lambda net, array: net.table.__setitem__("k", -1.0),
    "dict update": lambda net, array: net.table.update(k=100.0),
    "dict or": lambda net, array: net.table.__ior__({"k": 50.0}),
    "dict replaced": lambda net, array: setattr(net, "table", {"k": 3.0}),
    "dict pop": lambda net, array: (net.table.pop("k"), net.table.setdefault("k", 9.0)),
    "list in a tuple": lambda net, array: net.pair[0].__setitem__(0, 3.0),
    "dict in a tuple": lambda net, array: net.pair[1].update({"z": 4.0}),
    "tensor": lambda net, array: setattr(net, "mask", array([0.0, 1.0])),
    "function": lambda net, array: setattr(net, "function", lambda x: x * 3.0),
    "deleted": lambda net, array: (delattr(net, "mask"), setattr(type(net), "mask", None)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_by_a_recording(array, change):
    class Net(Configured):
        pass

    net, x = Net(), array([-1.0, 3.0])
    function = recorded(net, x)
    before = function(x).tolist()
    CHANGES[change](net, array)
    after = net(x).tolist()
    assert function(x).tolist() == after
    if change not in ("deleted", "number to integer"):
        assert after != before
    assert function(x).tolist() == after
    assert function.records == 2


def test_order_counts(array):
    net, x = Sequential(Lambda(lambda x: x + 1.0), Lambda(lambda x: x * 10.0)), array([1.0])
    function = recorded(net, x)
    net.steps.reverse()
    assert function(x).item() == 11.0
    net.steps.sort(key=id)
    assert function(x).item() == net(x).item()


def test_going_back_finds_the_old_recording(array):
    net, x = Configured(), array([-1.0, 3.0])
    function = recorded(net, x)
    first = function(x).tolist()
    for _ in range(3):
        net.scale = 0.5
        function(x)
        net.scale = 2.0
        assert function(x).tolist() == first
    assert function.records == 2


def test_functions_that_follow_each_other_in_memory_are_told_apart(array):
    net, x = Configured(), array([-1.0, 3.0])
    function = recorded(net, x)
    for power in range(1, 8):  # each may get the id of the one before the last
        net.function = lambda x, power=power: x * float(power)
        assert function(x).tolist() == net(x).tolist()


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), ("1", 1), ([], {}), ([], ())]
)
def test_values_that_are_equal_but_not_the_same(array, one, other):
    class Tells(Layer):
        def __init__(self):
            self.value = one

        def forward(self, x):
            return x * float(len(repr(self.value)))

    net, x = Tells(), array([1.0])
    function = recorded(net, x)
    net.value = other
    function(x)
    assert function.records == 2


def test_nan_is_itself(array):
    net, x = Configured(), array([1.0])
    net.scale = float("nan")
    function = recorded(net, x)
    net.scale = float("nan")
    function(x)
    assert function.records == 1


def test_layers_in_lists_may_come_and_go(array):
    net, x = Sequential(Lambda(lambda x: x + 1.0)), array([1.0])
    function = recorded(net, x)
    net.steps.append(Lambda(lambda x: x * 10.0))
    assert function(x).item() == 20.0
    net.steps[0] = Lambda(lambda x: x * 100.0)
    assert function(x).item() == 1000.0
    del net.steps[1]
    assert function(x).item() == 100.0


def test_a_swapped_sublayer_is_seen_and_the_old_one_is_let_go(array):
    class Net(Layer):
        def __init__(self):
            self.head = Linear(1, weight_init="ones")

        def forward(self, x):
            return self.head(x)

    net, x = Net(), array([[1.0, 2.0]])
    function = recorded(net, x)
    for factor in range(2, 6):
        net.head = Linear(1, weight_init=float(factor))
        assert function(x).item() == 3.0 * factor
    assert net.get_params()["head.weight"].tolist() == [[5.0], [5.0]]


def test_a_frozen_parameter_is_seen_and_its_recording_found_again(array):
    layer, x = Linear(1, bias=False), array([[2.0]])

    @graph
    def step(x):
        y = layer(x)
        return gradients(y.sum(), layer.weight) if y.requires_grad else y * 0.0

    assert step(x).tolist() == [[2.0]]
    layer.weight.requires_grad = False
    assert step(x).tolist() == [[0.0]]
    layer.weight.requires_grad = True
    assert step(x).tolist() == [[2.0]]
    layer.weight.requires_grad = False
    assert step(x).tolist() == [[0.0]]
    assert step.records == 2


def test_a_frozen_parameter_is_no_longer_updated(array):
    class Net(Model):
        def __init__(self):
            self.one, self.two = Linear(2), Linear(1)
            self.loss, self.optimizer = lambda y, t: (y - t).square().mean(), opt.SGD(0.1)

        def forward(self, x):
            return self.two(self.one(x))

    net, x = Net(), array([[1.0, 2.0]])
    net.compile([x])
    net.train_one_batch(x, array([[1.0]]))
    for cell in net.one.get_params().values():
        cell.requires_grad = False
    one, two = net.one.weight.tolist(), net.two.weight.tolist()
    net.train_one_batch(x, array([[1.0]]))
    assert net.one.weight.tolist() == one
    assert net.two.weight.tolist() != two


def test_dropout_rate_and_mode(array):
    layer, x = Dropout(0.0), array([1.0] * 64)
    function = recorded(layer, x)
    layer.p = 1.0
    assert function(x).tolist() == [0.0] * 64
    layer.eval()
    assert function(x).tolist() == [1.0] * 64


# -- lists and dicts by themselves -----------------------------------------------------------------


def test_watched_copies_lists_and_dicts_in_any_depth():
    inner, value = [1], {"a": [2, {"b": 3}]}
    seen = watched((inner, value, {4}, "text"))
    assert seen == ([1], {"a": [2, {"b": 3}]}, {4}, "text")
    assert type(seen[0]) is WatchedList
    assert type(seen[1]["a"][1]) is WatchedDict
    inner.append(5)  # the original is not the attribute
    assert seen[0] == [1]
    assert watched(seen[0]) is seen[0]


def test_what_is_put_into_a_watched_list_is_watched_too(array):
    class Nested(Layer):
        def __init__(self):
            self.groups, self.named = [], {}

        def forward(self, x):
            for layer in (*sum(self.groups, []), *self.named.get("more", [])):
                x = layer(x)
            return x

    net, x = Nested(), array([1.0])
    double = Lambda(lambda x: x * 2.0)
    function = recorded(net, x)
    net.groups.append([double])
    net.groups.extend([[double]])
    net.named["more"] = [double]
    assert function(x).item() == 8.0
    net.groups[0].append(double)
    assert function(x).item() == 16.0
    net.groups[1].append(double)
    net.named["more"].append(double)
    assert function(x).item() == 64.0


def test_a_change_that_fails_changes_nothing():
    items, table = WatchedList([3, 1, 2]), WatchedDict(a=1)
    with pytest.raises(IndexError, match="pop index out of range"):
        items.pop(9)
    with pytest.raises(KeyError, match="b"):
        table.pop("b")
    assert (items, table) == ([3, 1, 2], {"a": 1})
    assert items.pop() == 2
    assert table.setdefault("c", [1]) == [1]
    assert type(table["c"]) is WatchedList
    items.sort(reverse=True)
    assert items == [3, 1]


def test_reading_is_no_change():
    layer = Sequential(Linear(1))
    layer.table = {"a": 1}
    before = STRUCTURE.count
    assert (list(layer.steps), layer.steps[0], len(layer.steps), layer.table.get("a")) == (
        [layer[0]], layer[0], 1, 1,
    )  # fmt: skip
    assert layer.steps.copy() == [layer[0]]
    assert layer.get_params()
    assert STRUCTURE.count == before


def test_copies_of_watched_lists_are_watched():
    twin = copy.deepcopy(WatchedList([[1], {"a": WatchedDict(b=2)}]))
    assert (type(twin), type(twin[1]["a"])) == (WatchedList, WatchedDict)
    assert twin == [[1], {"a": {"b": 2}}]


def test_a_state_written_by_forward_is_no_change_of_structure(array):
    class Counts(Layer):
        def __init__(self):
            self.n, self.w = State(()), Parameter((), "ones")

        def forward(self, x):
            self.n.assign(self.n + 1.0)
            return x * self.w

    layer, x = Counts(), array(2.0)
    function = recorded(layer, x)
    for _ in range(3):
        function(x)
    assert (function.records, layer.n.item()) == (1, 4.0)


# -- containers of other kinds -------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


class Stack(list):
    """A list of somebody else's."""

    def push(self, item):
        self.append(item)


class Table(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def scale(value):
    return Lambda(lambda x: x * value)


def grown(net):
    net.parts["new"]  # made by the factory, and kept
    net.parts["new"].append(scale(3.0))


KINDS = {
    "list": (lambda a, b: [a, b], lambda net: net.parts.append(scale(3.0))),
    "tuple": (lambda a, b: (a, [b]), lambda net: net.parts[1].append(scale(3.0))),
    "named tuple": (lambda a, b: Pair(a, [b]), lambda net: net.parts.second.append(scale(3.0))),
    "OrderedDict": (
        lambda a, b: OrderedDict(a=a, b=b), lambda net: net.parts.move_to_end("a"),
    ),
    "defaultdict": (lambda a, b: defaultdict(list, a=[a], b=[b]), grown),
    "deque": (lambda a, b: deque([a, b], maxlen=4), lambda net: net.parts.appendleft(scale(3.0))),
    "deque turned": (lambda a, b: deque([a, b]), lambda net: net.parts.rotate(1)),
    "list of one's own": (lambda a, b: Stack([a, b]), lambda net: net.parts.push(scale(3.0))),
    "dict of one's own": (lambda a, b: Table(a=a, b=b), lambda net: net.parts.update(c=scale(3.0))),
    "nested": (
        lambda a, b: OrderedDict(a=Stack([a]), b=deque([{"x": b}])),
        lambda net: net.parts["b"][0].update(y=scale(3.0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_layers_in_any_container_are_found_and_its_changes_seen(array, kind):
    make, change = KINDS[kind]

    def leaves(parts):
        if isinstance(parts, Layer):
            return [parts]
        items = parts.values() if isinstance(parts, dict) else parts
        return [leaf for item in items for leaf in leaves(item)]

    class Net(Layer):
        def __init__(self):
            self.parts = make(Linear(2), Lambda(lambda x: x + 1.0))

        def forward(self, x):
            for part in leaves(self.parts):
                x = part(x)
            return x

    net, x = Net(), array([[1.0, 2.0]])
    given = make(Linear(2), Linear(2))
    assert isinstance(net.parts, type(given))
    net(x)
    assert len(net.get_params()) == 2
    assert sum(isinstance(layer, Linear) for layer in net.layers()) == 1
    function = recorded(net, x)
    function(x)
    assert function.records == 1
    change(net)
    assert function(x).tolist() == net(x).tolist()
    assert function.records == 2
    twin = copy.deepcopy(net)
    assert type(twin.parts) is type(net.parts)
    assert len(twin.get_params()) == 2
    assert twin.get_params().keys() == net.get_params().keys()


def test_a_set_counts_its_changes_too(array):
    class Net(Layer):
        def __init__(self):
            self.flags = {"a"}

        def forward(self, x):
            return x * float(len(self.flags))

    net, x = Net(), array([1.0])
    function = recorded(net, x)
    net.flags.add("b")
    assert function(x).item() == 2.0
    net.flags -= {"a"}
    assert function(x).item() == 1.0


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_of_layers_is_refused_at_once(kind):
    net = Layer()
    with pytest.raises(
        ArgumentError,
        match=rf"attribute 'parts': needs a list, tuple or dict of layers .*{kind.__name__}",
    ):
        net.parts = kind([Linear(2)])
    assert not hasattr(net, "parts")


@dataclass
class Parts:
    conv: Any


class Holder:
    def __init__(self, *layers):
        self.layers = list(layers)


@pytest.mark.parametrize(
    "hide",
    [Parts, Holder, lambda layer: MappingProxyType({"a": layer}), lambda layer: UserDict(a=layer)],
)
def test_an_object_that_hides_layers_is_warned_about(hide):
    net = Layer()
    with pytest.warns(
        UnregisteredWarning,
        match=r"Layer.parts: a \w+ that holds layers or parameters, which are not(.|\n)*try: a list",
    ) as caught:
        net.parts = hide(Linear(2))
    assert caught[0].filename == __file__
    net.others = hide(3.0)  # in silence
    net.optimizer = opt.SGD(0.1, params=[Parameter((2,))])


def test_a_list_that_cannot_be_copied_is_refused():
    class Stubborn(list):
        def __reduce_ex__(self, protocol):
            raise TypeError("no copies")

    net = Layer()
    net.numbers = Stubborn([1.0])
    with pytest.raises(
        ArgumentError, match="Layer.parts: needs .* that can be copied, got a Stubborn"
    ):
        net.parts = Stubborn([Linear(2)])
