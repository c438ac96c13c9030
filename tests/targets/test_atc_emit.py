"""ATC as a target of the Python API."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from fuser import ConfigError, OutputError, TargetError, fuse
from fuser.targets.atc import lint
from fuser.targets.options import AtcOptions
from tests.builders import conv_bn_leaky
from tests.targets.running import feeds, run


def test_fuse_for_atc(tmp_path: Path) -> None:
    """Standard operators, one import, the findings in the report."""
    model = conv_bn_leaky(opset=21, ir=10)
    result = fuse(model, target="atc")
    assert [n.op_type for n in result.model.graph.node] == ["Conv", "LeakyRelu"]
    assert [(e.domain, e.version) for e in result.model.opset_import] == [("", 18)]
    assert result.report.target["name"] == "atc"
    assert [f["rule"] for f in result.report.target["findings"]] == ["retarget", "open-dims"]
    assert result.report.parity is not None
    assert result.report.parity.verdict == "passed"
    assert result.report.model.opset == 21
    assert result.report.model.nodes == (3, 2)
    assert result.save(tmp_path / "o.onnx").path.exists()
    given = feeds(model)
    np.testing.assert_allclose(run(result.model, given)[0], run(model, given)[0], rtol=1e-4, atol=1e-5)


def test_large_weights_stay_where_they_are() -> None:
    """The skeleton's marks survive, also in node form, whose runnable twin shares them."""
    model = conv_bn_leaky(channels=(64, 64), size=4)
    for form in ("standard", "node"):
        result = fuse(model, target="atc", fused_as=form)
        [weight] = [t for t in result.stored.proto.graph.initializer if len(t.dims) == 4]
        assert result.stored.weights.payload(weight) is not None
        assert not weight.raw_data
        assert result.report.parity is not None
        assert result.report.parity.verdict == "passed"
        assert len(result.model.graph.initializer) == 2


def test_inputs_with_a_default_are_constants() -> None:
    """As for ATC itself: their normalization is folded, and parity does not ask for them."""
    result = fuse(conv_bn_leaky(overridable=True), target="atc")
    assert [v.name for v in result.model.graph.input] == ["x"]
    assert [n.op_type for n in result.model.graph.node] == ["Conv", "LeakyRelu"]
    assert result.report.parity is not None
    assert result.report.parity.verdict == "passed"


def test_what_atc_would_refuse_is_not_saved(tmp_path: Path) -> None:
    """The model can be looked at; it is written only where that was allowed."""
    model = conv_bn_leaky(opset=22, ir=11, dtype=TensorProto.BFLOAT16, check=False)
    result = fuse(model, target="atc", parity=False)
    assert any(f.severity == "error" for f in lint(result.model))
    with pytest.raises(OutputError, match="the target would refuse the model"):
        result.save(tmp_path / "o.onnx")
    allowed = fuse(model, target=AtcOptions(allow_findings=True), parity=False)
    assert allowed.save(tmp_path / "o.onnx").path.exists()


def test_float16_is_compared_where_that_is_asked_for() -> None:
    model = conv_bn_leaky()
    assert fuse(model, target="atc", parity=False).report.target["float16"] is None
    target = fuse(model, target=AtcOptions(float16=True), parity=False).report.target
    assert target["float16"]["verdict"] == "passed"
    assert [f["rule"] for f in target["findings"]][-1] == "float16"


def test_forms_of_other_targets_are_refused() -> None:
    with pytest.raises(ConfigError, match="the target atc has no form 'function'; fuse as standard or node"):
        fuse(conv_bn_leaky(), target="atc", fused_as="function")
    with pytest.raises(ConfigError, match="the target onnx has no form 'node'"):
        fuse(conv_bn_leaky(), fused_as="node")
    with pytest.raises(TargetError, match="CANN version 'x'"):
        fuse(conv_bn_leaky(), target=AtcOptions(cann="x"))
