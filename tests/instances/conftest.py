"""What the tests of instances share."""

import pytest

from tests.factories.rental import make_image, make_node, make_offer, make_rich_tenant


@pytest.fixture
def market():
    """One A100 on a live node, an offer of a tenth of it, an image."""
    make_offer()
    make_image()
    return make_node()


@pytest.fixture
def tenant():
    return make_rich_tenant()
