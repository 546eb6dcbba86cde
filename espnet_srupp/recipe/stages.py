"""The stages of asr.sh by number, and one more: what each is made from, and by whom."""

from espnet_srupp.recipe import data_stages, lm_stages, long_stages, model_stages

STAGES = {
    1: data_stages.prepare,
    2: data_stages.perturb,
    3: data_stages.format_sets,
    4: data_stages.filter_sets,
    5: data_stages.make_tokens,
    6: lm_stages.collect_statistics,
    7: lm_stages.train_model,
    8: lm_stages.measure_perplexity,
    10: model_stages.collect_statistics,
    11: model_stages.train_model,
    12: model_stages.decode_sets,
    13: model_stages.score_sets,
    14: model_stages.pack_model,
    15: long_stages.evaluate_long,
}
