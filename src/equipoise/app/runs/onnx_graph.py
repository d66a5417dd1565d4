"""An ONNX graph written node by node."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__

OPSET, TREE_OPSET, IR = 18, 3, 9


class GraphBuilder:
    """Collects nodes and constants; every value is referred to by name.

    Args:
        columns: number of columns of the encoded table.
        classes: number of classes, or of attributes with ``several`` labels per sample.
        dtype: of the graph's input.
    """

    def __init__(self, columns: int, classes: int, dtype: Any, *, several: bool) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.columns, self.classes, self.dtype, self.several = columns, classes, np.dtype(dtype), several
        self.thresholds: list[tuple[NDArray[Any], NDArray[Any]]] = []
        """Columns and the values that members compare them with."""

    def node(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation, and return the name of its output."""
        from onnx import helper

        name = f"{operation}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """Add an array, and return its name."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """Convert a value to another dtype."""
        from onnx import helper

        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def trees(self, x: str, tables: Sequence[dict[str, NDArray[Any]]], targets: int) -> str:
        """Sum the leaves that rows reach, (rows, targets).

        Args:
            x: in double precision, so that thresholds are compared exactly.
            tables: nodes of each tree: left, right, feature, threshold, leaf, and value, (nodes, targets).
        """
        from onnx import numpy_helper

        sizes = [len(table["left"]) for table in tables]
        tree = np.repeat(np.arange(len(tables)), sizes)
        number = np.concatenate([np.arange(size) for size in sizes])
        joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
        leaf = joined["leaf"].astype(bool)
        self.thresholds.append((joined["feature"][~leaf], joined["threshold"][~leaf]))
        each = np.flatnonzero(leaf).repeat(targets)
        of_target = np.tile(np.arange(targets), int(leaf.sum()))
        return self.node(
            "TreeEnsembleRegressor",
            x,
            domain="ai.onnx.ml",
            n_targets=targets,
            nodes_treeids=tree.tolist(),
            nodes_nodeids=number.tolist(),
            nodes_featureids=np.where(leaf, 0, joined["feature"]).tolist(),
            nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
            nodes_truenodeids=np.where(leaf, 0, joined["left"]).tolist(),
            nodes_falsenodeids=np.where(leaf, 0, joined["right"]).tolist(),
            nodes_values_as_tensor=numpy_helper.from_array(np.where(leaf, 0.0, joined["threshold"])),
            target_treeids=tree[each].tolist(),
            target_nodeids=number[each].tolist(),
            target_ids=of_target.tolist(),
            target_weights_as_tensor=numpy_helper.from_array(joined["value"][each, of_target].astype(np.float64)),
        )

    def example(self, rows: int) -> NDArray[Any]:
        """Draw rows near the values that members compare columns with, on both sides of them."""
        rng = np.random.default_rng(rows)
        columns, values = (np.concatenate(parts) for parts in zip(*self.thresholds, strict=True))
        known = [values[(columns == column) & np.isfinite(values)] for column in range(self.columns)]
        spread = [float(own.std()) if len(own) else 1.0 for own in known]
        drawn = [rng.choice(own, rows) if len(own) else np.zeros(rows) for own in known]
        return (np.stack(drawn, 1) + rng.normal(size=(rows, self.columns)) * spread).astype(self.dtype)

    def content(self, described: dict[str, str]) -> bytes:
        """Return the file's content, with a description by name."""
        import onnx
        from onnx import helper

        def typed(name: str, dtype: Any, *shape: Any) -> Any:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

        several = self.several
        answers = [
            typed("probabilities", np.float32, "batch", self.classes),
            typed("uncertainty", np.float32, "batch"),
            typed("predicted", np.int64, *(("batch", self.classes) if several else ("batch",))),
        ]
        inputs = [typed("x", self.dtype, "batch", self.columns)]
        graph = helper.make_graph(self.nodes, "equipoise", inputs, answers, self.constants)
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
        made = helper.make_model(graph, opset_imports=imports, ir_version=IR)
        made.producer_name, made.producer_version = "equipoise", __version__
        helper.set_model_props(made, described)
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString())
