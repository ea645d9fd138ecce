"""Names of others that the telemetry room uses, though nobody promises to keep them."""

from opentelemetry.sdk.trace import TracerProvider


def test_the_tracer_of_opentelemetry_takes_a_generator_of_ids() -> None:
    tracer = TracerProvider().get_tracer("test")
    assert hasattr(tracer, "id_generator"), (
        "Tracer.id_generator is gone: a run's trace no longer has the run's trace id. Look for "
        "what makes the ids now, and change telemetry/spans.py"
    )
