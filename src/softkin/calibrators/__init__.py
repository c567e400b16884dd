"""Logits and labels → calibrated probabilities."""

from softkin.calibrators.base import Calibrator
from softkin.calibrators.certificate import Certificate, HeldOut
from softkin.calibrators.temperature import TemperatureScaling

__all__ = ["Calibrator", "Certificate", "HeldOut", "TemperatureScaling"]
