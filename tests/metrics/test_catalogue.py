"""Options of metrics."""

import pytest
import torch

from softkin import metrics
from softkin.metrics.catalogue import METRICS


@pytest.mark.parametrize("key", [metric.key for metric in METRICS.values() if metric.function is not None])
def test_no_metric_ignores_an_unknown_option(key):
    """A misspelt option would otherwise give the number of its default."""
    needed = {
        "superclass_ece": {"groups": torch.tensor([0, 1])},
        "neighbourhood_mass": {"similarity": 1 - torch.eye(2)},
        "mistake_severity": {"distances": 1 - torch.eye(2)},
    }
    with pytest.raises(TypeError, match="takes no option `confidnce`"):
        METRICS[key].function(torch.tensor([[0.6, 0.4]]), torch.tensor([0]), **needed.get(key, {}), confidnce=0.9)


def test_the_nearest_option_is_named():
    with pytest.raises(TypeError, match=r"`ece_hist` takes no option `n_bin`; its options: .*did you mean 'n_bins'\?"):
        metrics.ece_hist(torch.tensor([[0.6, 0.4]]), torch.tensor([0]), n_bin=3)
    with pytest.raises(ValueError, match=r"got 'outptu'; did you mean 'output'\?"):
        metrics.ece_hist(torch.tensor([[0.6, 0.4]]), torch.tensor([0]), scope="outptu")
