"""What differs between two records: by the paths of fields, and in the words of forms."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.operations.records import File, InputInfo, Operation, Output, input_infos, words_of
from napari_gpubio.core.parameters import ParamInfo, param_info
from napari_gpubio.core.settings import PartInfo, Settings, field_names, kind_of, part_info, record_fields

_MOST_CHARACTERS = 40  # of a value
_FIGURES = (4, 6, 12)  # of numbers, more only where fewer do not tell them apart
_CLOSE_UNITS = ("", "°", "%")  # that stand at their number


class _Step(NamedTuple):
    """From a record to one of its fields, or from a tuple to one of its members."""

    owner: Any
    key: str | int


class _Change(NamedTuple):
    way: tuple[_Step, ...]
    old: Any
    new: Any


def difference(old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two records differ: the path of the field, and both values; nothing if they are equal."""
    for change in _changes([_Change((), old, new)], _is_never_whole):
        path = "".join(f"[{step.key}]" if isinstance(step.key, int) else f".{step.key}" for step in change.way)
        yield path.removeprefix("."), change.old, change.new


def difference_in_words(old: Any, new: Any) -> list[str]:
    """Where two records differ, as forms call it, the value of the old one first; [] if they are equal.

    Examples
    --------
    >>> from napari_gpubio.layered import LayeredMedium
    >>> from napari_gpubio.optics.model import Layer
    >>> made, now = (Layer(name="skull", mua_per_mm=mua) for mua in (0.02, 0.015))
    >>> difference_in_words(LayeredMedium(layers=(made,)), LayeredMedium(layers=(now,)))
    ['µa of skull 0.02 instead of 0.015 /mm']
    """
    if not isinstance(old, Operation) or type(old) is type(new):
        return _sentences(_changes([_Change((), old, new)], _is_whole))
    shared = [f.name for f in record_fields(old) if f.compare and f.name in field_names(type(new))]
    both = [_Change((_Step(old, name),), getattr(old, name), getattr(new, name)) for name in reversed(shared)]
    return _sentences(_changes(both, _is_whole)) or [f"{old.verb} instead of {new.verb}"]


def _changes(waiting: list[_Change], is_whole: Callable[[Any, Any], bool]) -> Iterator[_Change]:
    """All changes; a pair of values that `is_whole` is one, whatever differs in it."""
    while waiting:
        way, old, new = change = waiting.pop()
        if old == new:
            continue
        if is_whole(old, new):
            yield change
        elif isinstance(old, Output) and isinstance(new, Output) and old.name == new.name:
            waiting.append(_Change(way, old.of, new.of))
        elif isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
            pairs = reversed([*enumerate(zip(old, new, strict=True))])
            waiting += [_Change((*way, _Step(old, n)), *both) for n, both in pairs]
        elif type(old) is type(new) and isinstance(old, Settings):
            names = [f.name for f in record_fields(old) if f.compare]
            both = [(name, getattr(old, name), getattr(new, name)) for name in reversed(names)]
            waiting += [_Change((*way, _Step(old, name)), *values) for name, *values in both]
        else:
            yield change


def _is_never_whole(*_: Any) -> bool:
    return False


def _is_whole(old: Any, new: Any) -> bool:
    """Whether people see a single value: a list of numbers, or something with another name."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        return not _are_records((*old, *new))
    return isinstance(old, Output) and isinstance(new, Output) and old.of.title != new.of.title


def _are_records(values: tuple[Any, ...]) -> bool:
    return bool(values) and all(isinstance(one, Settings | Output) for one in values)


# -- words ------------------------------------------------------------------------------------------------------------


def _sentences(changes: Iterable[_Change]) -> list[str]:
    """All changes, those with values first; several of one input that cannot are one."""
    sentences, of_inputs = list[str](), dict[str, list[str]]()
    for change in changes:
        last = max((n for n, step in enumerate(change.way) if isinstance(step.key, str)), default=None)
        info = PartInfo("Operation", "") if last is None else _info(change.way[last])
        of_input = _input_label(change.way[:last])
        what = f"{info.label}{_place(change.way[:last], '' if of_input == info.label else of_input)}"
        if sentence := _sentence(what, info, change.old, change.new):
            sentences.append(sentence)
        else:
            of_inputs.setdefault(of_input, []).append(what)
    names = ([label] if label and len(several) > 1 else several for label, several in of_inputs.items())
    return [*sentences, *(f"{name}: other values" for one in names for name in one)]


def _sentence(what: str, info: ParamInfo | PartInfo | InputInfo, old: Any, new: Any) -> str:
    """Both values; nothing where these have no short texts."""
    if isinstance(old, tuple) and isinstance(new, tuple) and _are_records((*old, *new)):
        return f"{what}: {_members(old, new)}"
    first, second = _texts(old, new, info)
    if not (first and second) or first == second or max(len(first), len(second)) > _MOST_CHARACTERS:
        return ""
    unit, is_last = _after_number(getattr(info, "unit", "")), _is_number(new)
    return f"{what} {first}{unit * (_is_number(old) and not is_last)} instead of {second}{unit * is_last}"


def _info(step: _Step) -> ParamInfo | PartInfo | InputInfo:
    """What a form knows of a field."""
    cls, name = type(step.owner), str(step.key)
    if issubclass(cls, Operation) and name in input_infos(cls):
        return input_infos(cls)[name]
    field = cls.__dataclass_fields__[name]
    return param_info(field) or part_info(field) or PartInfo(name.replace("_", " "), "")


def _input_label(way: tuple[_Step, ...]) -> str:
    """Label of the last input on the way, or nothing."""
    fields = [_info(step) for step in reversed(way) if isinstance(step.key, str)]
    return next((info.label for info in fields if isinstance(info, InputInfo)), "")


def _place(way: tuple[_Step, ...], label: str) -> str:
    """What a field belongs to: members of lists, or else the input with this label."""
    members = [_member(step.owner, step.key) for step in reversed(way) if isinstance(step.key, int)]
    if members or not label:
        return "".join(f" of {name}" for name in members)
    return f" of {label[:1].lower() + label[1:] if label[1:2].islower() else label}"


def _member(owner: tuple[Any, ...], n: int) -> str:
    """Name of a member of a list, with its number where others have the same."""
    names = [*map(_name, owner)]
    return names[n] if names.count(names[n]) == 1 else f"{names[n]} ({n + 1})"


def _name(value: Any) -> str:
    """What people call settings or an operation; one without a name of its own is called as its first input is."""
    record = value.of if isinstance(value, Output) else value
    while isinstance(record, Operation) and record.title == record.verb and (first := next(record.inputs(), None)):
        record = first[1].of
    return getattr(record, "title", "") or getattr(record, "name", "") or _kind(record)


def _kind(value: Any) -> str:
    record = value.of if isinstance(value, Output) else value
    return kind_of(record) if "kind" in vars(type(record)) else words_of(type(record))


def _members(old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    """What one of two lists of different lengths has, and the other has not."""
    before, now = (Counter(map(_name, members)) for members in (old, new))
    both = (("with", before - now), ("without", now - before))
    text = ", ".join(f"{word} {', '.join(names)}" for word, names in both if names)
    return text if 0 < len(text) <= _MOST_CHARACTERS else f"{len(old)} instead of {len(new)}"


def _texts(old: Any, new: Any, info: ParamInfo | PartInfo | InputInfo) -> tuple[str, str]:
    """Both values in as few figures, or by the first name, that tells them apart; nothing of one that is no text."""
    for figures in _FIGURES:
        first, second = (_text(value, info, figures) for value in (old, new))
        if first != second:
            break
    return first, second


def _text(value: Any, info: ParamInfo | PartInfo | InputInfo, figures: int) -> str:
    match value:
        case None:
            return "auto" if isinstance(info, ParamInfo) else "none"
        case bool():
            return "on" if value else "off"
        case int() | float():
            return short_number(value, figures)
        case str():
            return value if getattr(info, "choices", None) else repr(value)
        case tuple():
            texts = [_text(one, info, figures) for one in value]
            return texts[0] if len(texts) == 1 else f"({', '.join(texts)})" if all(texts) and texts else "none"
        case File():
            return repr(Path(value.place).name)
        case Output():
            return (repr(_name(value)), value.of.title, value.name)[_FIGURES.index(figures)]
        case Settings():
            return kind_of(value)
    return ""


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _after_number(unit: str) -> str:
    """A unit with what stands before it: that of 0.5 1/mm is /mm."""
    return unit if unit in _CLOSE_UNITS else f" {unit.removeprefix('1') if unit.startswith('1/') else unit}"
