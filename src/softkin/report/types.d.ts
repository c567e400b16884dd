// The form of the data that the page reads: the JSON file beside it. docs/report.md says what each field means;
// report/build.py, comparison.py and models.py make them. A change of meaning raises plain.VERSION.

/** A number, null where there is none, "Infinity" or "-Infinity". */
type Plain = number | null | "Infinity" | "-Infinity";

interface Cells {
  count: number[];
  score_sum: number[];
  hit_sum: number[];
  /** Of a number of bins that does not divide 300. */
  exact?: Record<string, { count: number[]; score_sum: number[]; hit_sum: number[] }>;
  bands?: Record<string, [Plain[], Plain[]]>;
}

interface MetricAbout {
  key: string;
  name: string;
  title: string;
  short: string;
  about: string;
  percent: boolean;
  larger_is_better: boolean | null;
  signed: boolean;
  at_most: number | null;
  winner: string;
  shown: string[];
}

interface Measured {
  value: Plain;
  low?: Plain;
  high?: Plain;
  calibrated?: { value: Plain; low: Plain; high: Plain };
  floor?: Plain;
  caveat?: string;
}

interface Difference {
  difference: Plain;
  low: Plain;
  high: Plain;
}

interface Verdict {
  kind: "over" | "under" | "mixed" | "unknown" | "calibrated";
  headline: string;
  detail: string;
  at: number | null;
}

interface Rule {
  threshold: number;
  answered: number;
  wrong: number;
  coverage: number;
  risk: number;
  bound: number;
}

interface Variant {
  key: "raw" | "temperature" | "best";
  name: string;
  note: string | null;
  code?: string;
  temperature?: Plain;
  verdict: Verdict;
  metrics: Record<string, Measured>;
  against_raw?: Record<string, Difference>;
  against_temperature?: Record<string, Difference>;
  prediction: Cells;
  output: Cells;
  risk_coverage: { threshold: number[]; answered: number[]; wrong: number[] };
  abstention: { rule: Rule | null; text: string } | null;
  classes: {
    answered: number[];
    score_sum: number[];
    right: number[];
    ece: number[];
    /** Of each class [bin, count, score_sum, hits]. */
    bins: [number, number, number, number][][];
    instead: [number, number][][];
    truly: [number, number][][];
    mistakes: [number, number][][];
  };
  mistakes: { row: number; answer: number; confidence: number; truth: number; best: [number, number][] }[];
}

interface Sample {
  label: number;
  id?: string | number;
  text?: string;
  image?: string;
}

interface Similarity {
  name?: string;
  source: string | null;
  alpha: number;
  beta: number;
  low: number[];
  step: number[];
  codes: string;
  order: number[];
  mistakes?: { nearest: number; wrong: number; near: number; chance: number };
}

interface Column {
  key: string;
  title: string;
  percent?: boolean;
  signed?: boolean;
  larger_is_better?: boolean | null;
  explained?: string;
}

interface Cell {
  mean: Plain;
  std: Plain;
  n: number;
  values: Plain[];
  calibrated?: Plain;
  floor?: Plain;
  low?: Plain;
  high?: Plain;
  best?: boolean;
  tie?: boolean;
  p_value?: number | null;
}

interface SweepPoint {
  method: string;
  values: Record<string, number>;
  epochs: number;
  validation: Record<string, Plain>;
  seeds: number;
  chosen: number;
}

interface ModelRows {
  count: number;
  most: number;
  steps: number;
  label: string;
  ids: (string | number)[] | null;
  variants: { best: string | null; score: string }[];
}

interface PageData {
  format: "softkin report";
  version: number;
  kind: string;
  softkin: string;
  name: string;
  source: string | null;
  num_samples: number;
  num_classes: number;
  class_names: string[];
  bins: number[];
  metrics: MetricAbout[];

  // One model
  are_probabilities: boolean;
  class_sizes: number[];
  level: number;
  quantile: number;
  resamples: number;
  n_bins: number;
  abstain: { target: number | null; confidence: number; asked: boolean };
  class_bins: number;
  variants: Variant[];
  calibrators: any[];
  samples: Record<string, Sample>;
  out_of_distribution: { name: string | null; num_samples: number; scores: Record<string, { auroc: number; fpr_at_95: number }> }[];
  mutual_information: { mean: number; auroc_of_errors: Record<string, number | null> } | null;
  /** Of a model `ModelRows`, of a similarity's page its own. */
  rows: any;

  // A comparison: the methods of a study, or several models
  subject: "methods" | "models";
  notes: string[];
  recommendation: string[];
  seeds: number[];
  methods: { key: string; name: string; short?: string }[];
  table: { columns: Column[]; rows: { method: string; cells: Record<string, Cell>; chosen: string | null; target: unknown }[] };
  curves: Record<string, { num_samples: number; prediction: Cells & { ece: Record<string, number[]> }; output: Cells & { ece: Record<string, number[]> } }> | null;
  sweep: { letters?: Record<string, string>, points: SweepPoint[] } | null;
  ood: { name: string; count: Record<string, number[]>; mean: Record<string, number>; auroc: Record<string, number>; fpr_at_95: Record<string, number>; auroc_mutual_information?: Record<string, number> }[] | null;
  histories: { method: string; seed: number; epochs: number[]; values: Record<string, Plain[]> }[] | null;
  verdicts: Record<string, Verdict> | null;
  pairs: (Difference & { metric: string; a: string; b: string; p_value: number; significant: boolean })[] | null;
  classes: { size: number[]; right: Record<string, number[]>; best: (number | null)[]; beyond_chance: boolean[] } | null;
  agreement: { same: number[][]; same_mistake: number[][]; all_right: number; all_wrong: number } | null;

  /** One of a model's page, a list on that of a study. */
  similarity: any;
  /** What another file of this folder adds. */
  [added: string]: any;
}
