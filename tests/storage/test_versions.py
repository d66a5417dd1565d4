from importlib.metadata import packages_distributions, version

import pytest

from equipoise.storage.versions import package_version


@pytest.mark.parametrize("package", ["sklearn", "imblearn", "skops", "PIL", "sentence_transformers", "xgboost"])
def test_a_package_is_found_by_the_name_that_it_is_imported_by(package):
    pytest.importorskip(package)
    (name,) = set(packages_distributions()[package])  # twice if a folder is on the path twice
    assert package_version(package) == f"{name} {version(name)}"


def test_a_module_of_ones_own_has_no_version():
    assert package_version("no_distribution_provides_this") == "no_distribution_provides_this"
