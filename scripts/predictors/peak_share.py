"""The estimate on the back of an envelope: operations of a step over a share of the devices' peak."""
from predictors.records import Refused, Transformer, recompute_of

NEEDS = "nothing"


def add_options(parser):
    parser.add_argument("--share", type=float, default=0.4, help="share of the peak that training reaches (default 0.4)")


class Predictor:
    def __init__(self, options):
        if not 0 < options.share <= 1:
            raise SystemExit("predict-with: --share must be above 0 and at most 1")
        self.share = options.share

    def predict(self, record):
        job = Transformer(record)
        again = {"none": 0, "selective": 0, "full": 1}[recompute_of(record)]
        predicted = job.predicted(record, job.flops(again) / (job.devices * self.share * record.peak()))
        if not predicted:
            raise Refused("measured: nothing that follows from the time of a step")
        return predicted
