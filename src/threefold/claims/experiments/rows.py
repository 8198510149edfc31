"""The statements that only runs can decide."""

from __future__ import annotations

from threefold.claims.claim import Claim, claim
from threefold.claims.experiments import catalogue as c
from threefold.claims.experiments import measures as m
from threefold.claims.experiments.experiment import Question, asked


def row(id: str, says: str, *questions: Question, sources: tuple[str, ...] = ()) -> Claim:
    """A statement whose verdict is read from run records."""
    rules = "; and ".join(question.rule for question in questions)
    return claim(id, says, f"decided by {rules}", sources=sources, subject="experiments")(asked(*questions))


ACCURACY = Question(c.E1, "accuracy, LSTM − GRU", m.difference("accuracy", "lstm", "gru"), within=0.01)
F1 = Question(c.E1, "macro F1, LSTM − GRU", m.difference("f1", "lstm", "gru"))
NEGATIVES = Question(c.E1, "recall of negatives − of positives, smaller of both", m.recall_of_negatives)
FASTER = Question(c.E2, "share of the processor time of training that GRU saves", m.time_saved("lstm", "gru"))
LONGER = Question(c.E3, "accuracy at 200 steps, LSTM − GRU", m.difference("accuracy", "lstm", "gru"))
SMALLER = Question(c.E3_SMALL, "test loss from 400 sentences, LSTM − GRU", m.difference("loss", "lstm", "gru"))
SERIAL = Question(c.E4, "time of an RNN against T, over attention's", m.time_saved("rnn", "attention"))
LEARNED_BETTER = Question(
    c.E7, "test loss in range, sinusoidal − learned", m.difference("loss", "sinusoidal", "learned")
)
LEARNED_GAP = Question(c.E7, "test − training loss, learned − sinusoidal", m.wider_gap("learned", "sinusoidal"))
RELATIVE_FAR = Question(c.E6, "loss at 4L, sinusoidal − ALiBi", m.better_far("ALiBi", "sinusoidal", 4))
RELATIVE_IN = Question(c.E6, "test loss in range, sinusoidal − RoPE", m.difference("loss", "sinusoidal", "RoPE"))
POOL_BETTER = Question(c.E9, "test accuracy, pool − stride", m.difference("accuracy", "pool", "stride"))
POOL_GAP = Question(c.E9, "test − training loss, stride − pool", m.wider_gap("stride", "pool"))
RATE = Question(c.E9_RATES, "test accuracy at 0.01 − the best of the others", m.best_rate("0.01", ("0.1", "0.001")))


SINUSOIDAL_FAR = Question(c.E6, "sinusoidal: loss(L) + 0.05 − loss(2L)", m.kept_at("sinusoidal", 2))
ABSOLUTE_IN = Question(c.E6, "test loss in range, none − sinusoidal", m.difference("loss", "none", "sinusoidal"))
ROPE_FAR = Question(c.E6, "RoPE: loss(L) + 0.05 − loss(2L)", m.kept_at("RoPE", 2))
ALIBI_FAR = Question(c.E6, "ALiBi: loss(L) + 0.05 − loss(8L)", m.kept_at("ALiBi", 8))
FADES = Question(c.E8, "mean |score| near − far, keys shuffled", m.fades)
OVERHEAD = Question(c.E8B, "overhead of RoPE in processor time − 5 %", m.overhead("RoPE", "none", 0.05))
CAPACITY_GAP = Question(c.E13, "test − training loss, 224,892 − 168,572 parameters", m.wider_gap("1", "0"))
LSTM_DECODER = Question(
    c.E10, "LSTM decoder: Jaccard − 0.5036", m.distance_from("LSTM", "jaccard", 0.503583607220501), within=0.05
)
ATTENTION_DECODER = Question(c.E10, "smallest of the four advantages over the LSTM decoder", m.all_four)
SERIES = Question(c.E12, "test loss, 1.01 softmax − series", m.within_percent("softmax", "series"))
ORDER = Question(
    c.E15, "accuracy without mask, positions − none", m.difference("accuracy", "all, positions", "all, none")
)
MASK = Question(
    c.E15, "accuracy without positions, causal − all", m.difference("accuracy", "causal, none", "all, none")
)


def near(arm: str, accuracy: float) -> Question:
    """Whether a net reaches the accuracy that was reported, to a point."""
    return Question(c.E9, f"{arm}: test accuracy − {accuracy}", m.distance_from(arm, "accuracy", accuracy), within=0.01)


POOL_001, POOL_004, STRIDE_004 = near("pool", 0.86), near("pool", 0.8280), near("stride", 0.8147)
QUESTIONS = tuple(value for value in list(vars().values()) if isinstance(value, Question))


RECURRENT = (
    row("000-1.1-acc", "LSTM and GRU have the same accuracy in sentiment analysis", ACCURACY),
    row("000-1.1-neg", "both are better on negative sentiment", NEGATIVES),
    row("000-1.2-gpu", "GPUs cannot make significant progress on the serial part", SERIAL),
    row("003-1.1-long", "LSTM is better for long, complex dependencies, thanks to finer gating", LONGER),
    row("003-1.1-small", "GRU suits small data and limited compute", SMALLER, FASTER),
    row("003-1.1-same", "comparable in many scenarios; LSTM may win where deeper context is needed", ACCURACY, LONGER),
)
POSITIONS = (
    row("000-4.1-d2", "unlearned: the inductive bias may not fit", LEARNED_BETTER),
    row(
        "003-4.1-fix-extra",
        "periodic functions help to extrapolate beyond training positions",
        SINUSOIDAL_FAR,
    ),
    row("003-4.1-fix-flex", "fixed encodings are less flexible and may be sub-optimal", LEARNED_BETTER),
    row("003-4.1-lrn-adapt/perf", "learned encodings adapt to the data, potentially performing better", LEARNED_BETTER),
    row("003-4.1-lrn-over", "learned encodings risk overfitting", LEARNED_GAP),
    row(
        "003-4.1-abs-simple",
        "absolute encodings are simple, and effective for short sequences",
        ABSOLUTE_IN,
    ),
    row("003-4.1-rel-ctx", "relative encodings give richer context", RELATIVE_IN),
    row("003-4.1-rel-long", "relative encodings handle long sequences better", RELATIVE_FAR),
    row(
        "003-5.4-bad",
        "order-blindness is undesirable, because word order matters",
        ORDER,
    ),
)
IMAGES = (
    row(
        "001-2.1",
        "best learning rate 0.01, final loss about 0.55, accuracy 0.86 (split not named)",
        RATE,
        POOL_001,
    ),
    row(
        "001-2.3-cap",
        "more parameters give more capacity and more overfitting (moot there: counts are equal by design)",
        CAPACITY_GAP,
    ),
    row("004-2.1", "best learning rate 0.01, final test accuracy 0.8280", RATE, POOL_004),
    row("004-2.2", "without max-pooling 0.8147, slightly worse", STRIDE_004, POOL_BETTER),
    row("004-2.3-over", "max-pooling helps against overfitting", POOL_GAP),
    row("004-2.3-acc", "hence max-pooling has better test accuracy", POOL_BETTER),
    row(
        "C17",
        "max-pool or none: 0.8280 against 0.8147 (004), another solution of the same task the other way round. "
        "Adjudicated: single runs cannot decide",
        POOL_BETTER,
        sources=("004",),
    ),
)
SPEECH = (
    row(
        "001-3.1",
        "LSTM decoder: Jaccard 0.5036, cosine 0.6694, Damerau–Levenshtein 0.2736, loss 1.669",
        LSTM_DECODER,
    ),
    row(
        "001-3.2",
        "attention decoder: Jaccard 0.7637, cosine 0.8647, Damerau–Levenshtein 0.6314, loss 1.161: better on all four",
        ATTENTION_DECODER,
    ),
)
OWN = (
    row("E2", "GRU trains faster than LSTM in the library's own kernels (000-1.1-eff, 003-1.1-fast, C12)", FASTER),
    row("E1-prf", "LSTM has the better macro F1 (000-1.1-prf)", F1),
    row(
        "E6-flex",
        "RoPE keeps its quality beyond the training length (003-4.2-flex)",
        ROPE_FAR,
    ),
    row(
        "E6-alibi",
        "ALiBi keeps its quality at eight times the training length",
        ALIBI_FAR,
    ),
    row(
        "E8",
        "in a trained model RoPE's scores fade with distance (003-4.2-decay)",
        FADES,
    ),
    row(
        "E8b",
        "RoPE costs more than 5 % of training time (000-4.2-speed, 003-4.1-rel-cost)",
        OVERHEAD,
    ),
    row(
        "E12",
        "degree-2 attention trained from scratch is within 1 % of softmax in loss (001-1.3)",
        SERIES,
    ),
    row(
        "E15-mask",
        "a causal mask alone tells order: without positions it beats no mask (003-5.4-noPE)",
        MASK,
    ),
)
