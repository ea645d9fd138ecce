"""Fields under the names of other formats."""

from collections.abc import Iterator

import pytest
from pydantic import AliasChoices

from ipyagent import schema
from ipyagent.schema import Model, ToolCall, ToolExecution, ToolResult, ToolStatus


def other_names() -> Iterator[tuple[type[Model], str, str]]:
    models = (each for each in vars(schema).values() if isinstance(each, type))
    for model in (each for each in models if issubclass(each, Model)):
        for name, field in model.model_fields.items():
            if isinstance(field.validation_alias, AliasChoices):
                for alias in field.validation_alias.choices:
                    if alias != name and not hasattr(model, str(alias)):
                        yield model, str(alias), name


@pytest.mark.spec("H29")
@pytest.mark.parametrize(("model", "alias", "name"), list(other_names()))
def test_a_field_can_be_read_by_each_of_its_names(
    model: type[Model], alias: str, name: str
) -> None:
    value = object()
    record = model.model_construct(**{name: value})
    assert getattr(record, alias) is value
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = record.nothing_like_it


@pytest.mark.spec("H16", "H29")
def test_an_execution_has_the_names_of_other_formats() -> None:
    execution = ToolExecution(
        call=ToolCall(id="c1", name="read_file", arguments={"path": "a.txt"}),
        status=ToolStatus.FAILED,
        result=ToolResult.failure("there is no a.txt"),
        duration=0.5,
    )
    assert (execution.tool_name, execution.tool_use_id) == ("read_file", "c1")
    assert execution.parameters == {"path": "a.txt"}
    assert execution.execution_time == 0.5
    assert execution.error_message == "there is no a.txt"
    assert execution.is_error
    waiting = ToolExecution(call=execution.call)
    assert (waiting.execution_time, waiting.error_message, waiting.is_error) == (None, None, False)
