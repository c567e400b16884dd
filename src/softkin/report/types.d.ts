// The form of the data that the page reads: the JSON file beside it. Written by scripts/page_types.py from
// report/data.py; docs/report.md says what each field means.

/** A number, null where there is none, "Infinity" or "-Infinity". */
type Plain = number | null | "Infinity" | "-Infinity";

/** The page of one model. */
interface ModelPage {
  format: "softkin report";
  version: number;
  softkin: string;
  name: string;
  source: string | null;
  num_classes: number;
  class_names: string[];
  kind: "model";
  num_samples: number;
  bins: number[];
  metrics: MetricData[];
  are_probabilities: boolean;
  pairs: boolean;
  binary: Binary | null;
  class_sizes: number[];
  level: number;
  quantile: number;
  class_quantile: number;
  resamples: number;
  n_bins: number;
  abstain: Target;
  class_bins: number;
  variants: Variant[];
  calibrators: TriedCalibrator[];
  samples: Record<string, Sample>;
  rows: ModelRows;
  ids_called?: string | null;
  similarity: Similarity | null;
  out_of_distribution: Unknown[];
  unknown: UnknownSeen[];
  groups: GroupsShown | null;
  sampled: SampledRows | null;
  calibrated_by?: string | null;
  votes?: boolean;
  mutual_information: Disagreement | null;
  decisions: Decisions | null;
}

/** Plain data for a page that shows a metric. */
interface MetricData {
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
  shown: ("evaluate" | "compare" | "select" | "record" | "table" | "wide" | "paper" | "card")[];
}

/** The classes of a binary model. */
interface Binary {
  positive: string;
  negative: string;
  positives: number;
}

/** The error rate that the threshold must keep. */
interface Target {
  target: number | null;
  confidence: number;
  asked: boolean;
}

/** One set of probabilities of the model. */
interface Variant {
  key: "raw" | "temperature" | "best";
  name: string;
  note: string | null;
  code?: string;
  temperature?: Plain;
  verdict: Verdict;
  metrics: Record<string, MeasuredData>;
  against_raw?: Record<string, Difference>;
  against_temperature?: Record<string, Difference>;
  prediction: Cells;
  output: Cells;
  risk_coverage: RiskCoverage;
  abstention: Abstention | null;
  certified: Certified[];
  positive: Positive | null;
  classes: ClassesOfModel;
  mistakes: Mistake[];
}

/** A model in plain words. */
interface Verdict {
  doubts: string[];
  kind: "over" | "under" | "mixed" | "unknown" | "calibrated";
  headline: string;
  detail: string;
  at: number | null;
}

/** ``Measured`` as plain data; what there is none of is left out. */
interface MeasuredData {
  value: Plain;
  low?: Plain;
  high?: Plain;
  level?: number;
  when_calibrated?: MeasuredData;
  floor?: Plain;
  caveat?: string;
  no_interval?: string;
  absent?: string;
}

/** A metric of one model minus that of another, on the same samples. */
interface Difference {
  difference: Plain;
  low: Plain;
  high: Plain;
}

/** Sums in 300 cells, which add up to bins. */
interface Cells {
  count: number[];
  score_sum: number[];
  hit_sum: number[];
  exact?: Record<string, Sums>;
  bands?: Record<string, Plain[][]>;
}

/** Sums over the scores of each bin or cell. */
interface Sums {
  count: number[];
  score_sum: number[];
  hit_sum: number[];
}

/** The numbers of answered and of wrong samples at each threshold. */
interface RiskCoverage {
  threshold: number[];
  answered: number[];
  wrong: number[];
}

/** The certified threshold, if there is one. */
interface Abstention {
  rule: Rule | null;
  least: number | null;
  text: string;
}

/** A threshold on the confidence. */
interface Rule {
  threshold: number;
  answered: number;
  wrong: number;
  coverage: number;
  risk: number;
  bound: number;
}

/** The threshold that is certified for an error rate, if there is one. */
interface Certified {
  target: number;
  rule: Rule | null;
  is_least: boolean;
}

/** A binary model by the probability of its positive class. */
interface Positive {
  cells: Cells;
  error: MeasuredData;
  threshold: number[];
  alarms: number[];
  caught: number[];
  auroc: number | null;
  average_precision: number | null;
  certified: Certified[];
}

/** Class by class: the answers, the class's own reliability, its confusions and its surest mistakes. */
interface ClassesOfModel {
  answered: number[];
  score_sum: number[];
  right: number[];
  ece: number[];
  bins: number[][][];
  instead: number[][][];
  truly: number[][][];
  mistakes: number[][][];
}

/** A wrong answer. */
interface Mistake {
  row: number;
  answer: number;
  confidence: number;
  truth: number;
  best: number[][];
}

/** A calibrator, cross-fitted in two halves of the file; or why it ``failed``. */
interface TriedCalibrator {
  name: string;
  code: string;
  metrics?: Record<string, Plain>;
  warnings?: string[];
  failed?: string;
}

/** A sample that the page can show. */
interface Sample {
  label: number;
  id?: string | number;
  text?: string;
  image?: string;
}

/** All samples in a compact form. */
interface ModelRows {
  count: number;
  most: number;
  steps: number;
  label: string;
  ids: (string | number)[] | null;
  variants: RowsOfVariant[];
}

/** The best classes of each row and their scores, packed. */
interface RowsOfVariant {
  best: string | null;
  score: string;
}

/** Class distances in a compact form, and the values with which the page starts. */
interface Similarity {
  source: string | null;
  alpha: number;
  beta: number;
  low: number[];
  step: number[];
  codes: string;
  order: number[];
  name?: string;
  as_it_is?: boolean;
  mistakes?: NearMistakes;
}

/** How many wrong answers are among the classes nearest to the true one. */
interface NearMistakes {
  nearest: number;
  wrong: number;
  near: number;
  chance: number;
}

/** A set of out-of-distribution samples, with the detection by each score. */
interface Unknown {
  name: string | null;
  num_samples: number;
  scores: Record<string, Detection>;
}

/** How well a score detects out-of-distribution samples. */
interface Detection {
  auroc: Plain;
  fpr_at_95: Plain;
}

/** Samples of none of the classes: their confidence, and how many the certified threshold would answer. */
interface UnknownSeen {
  name: string;
  num_samples: number;
  count: number[];
  answered: number | null;
}

/** The groups of rows, the largest gap first, and whether they differ. */
interface GroupsShown {
  column: string;
  level: number;
  rows: GroupShown[];
  gaps_differ: number | null;
  curves_differ: number | null;
}

/** One group of rows. */
interface GroupShown {
  name: string;
  num_samples: number;
  right: number;
  sure: number;
  gap: MeasuredData;
  error: MeasuredData;
  auroc: MeasuredData | null;
  bins: number[][];
  threshold?: GroupThreshold;
}

/** The threshold of one group of rows. */
interface GroupThreshold {
  risk: number;
  confidence: number;
  chosen: Rule | null;
  observed: Rule | null;
}

/** How many rows the page's charts are made from, drawn at random. */
interface SampledRows {
  rows: number;
  of: number;
  images?: number;
}

/** The mutual information of label and members: its mean, and how well each score detects wrong answers. */
interface Disagreement {
  mean: Plain;
  auroc_of_errors: Record<string, Plain>;
}

/** What rules would decide, fitted on one half of the rows and measured on the other. */
interface Decisions {
  errors: number[];
  confidence: number;
  fitted_on: number;
  measured_on: number;
  measured: number[] | null;
  rules: DecisionRule[];
  tree: TreeShown | null;
  samples: number[];
  labels: number[];
}

/** A rule of decision at every rate of errors. */
interface DecisionRule {
  title: string;
  about: string;
  levels: DecisionLevel[];
}

/** A rule at one rate of errors: its measures, each as value, low, high; or why it ``failed``. */
interface DecisionLevel {
  measures?: Record<string, Plain[]>;
  samples?: any[];
  answers?: string;
  nodes?: number[][];
  failed?: string;
}

/** A tree of classes: the parent of each node, and its name. */
interface TreeShown {
  parents: number[];
  names: string[];
}

/** The page of a study's methods, or of several models. */
interface ComparisonPage {
  format: "softkin report";
  version: number;
  softkin: string;
  name: string;
  source: string | null;
  num_classes: number;
  class_names: string[];
  kind: "comparison";
  sampled: SampledRows | null;
  subject: "methods" | "models" | "labels";
  num_samples: number;
  bins: number[];
  metrics: MetricData[];
  notes: string[];
  recommendation: string[];
  seeds: number[];
  methods: Method[];
  overview: Overview | null;
  table: TableData;
  curves: Record<string, Curves> | null;
  sweep: Sweep | null;
  ood: UnknownOfMethods[] | null;
  histories: History[] | null;
  similarity: Similarity[] | null;
  verdicts: Record<string, Verdict> | null;
  pairs: Compared[] | null;
  classes: ClassesOfModels | null;
  agreement: Agreement | null;
}

/** A method or a model. */
interface Method {
  key: string;
  name: string;
  short?: string;
}

/** The first screen of several methods or models. */
interface Overview {
  headline: string;
  kind: "over" | "under" | "fine";
  detail: string;
  groups: OverviewGroup[];
  choices: Choice[];
  chosen: string | null;
  baseline: string | null;
  words?: OverviewWords;
}

/** Rows that belong together, such as methods for which one has to do the same. */
interface OverviewGroup {
  title: string;
  rows: OverviewRow[];
}

/** A method or a model in the first picture. */
interface OverviewRow {
  method: string;
  right: number;
  sure: number;
  kind: "over" | "under" | "fine";
  error: number;
  dots: number[];
  low?: Plain;
  high?: Plain;
  chance: number | null;
  nll: Plain;
  cost: string | null;
  after?: AfterScaling;
  calibrated_by?: string;
}

/** A model after temperature scaling, cross-fitted. */
interface AfterScaling {
  sure: number;
  error: number;
  nll: Plain;
  temperature: Plain;
}

/** What to do under one constraint. */
interface Choice {
  kind: "recommended" | "option" | "avoid";
  title: string;
  text: string;
  code: string | null;
}

/** What dots and ticks of the first picture are. */
interface OverviewWords {
  right: string;
  sure: string;
  note: string;
  rows: number | null;
  positive: string | null;
}

/** The table. */
interface TableData {
  columns: Column[];
  rows: TableRow[];
}

/** A column of the table. */
interface Column {
  key: string;
  title: string;
  percent?: boolean;
  signed?: boolean;
  larger_is_better?: boolean | null;
  explained?: string;
}

/** A method or a model. */
interface TableRow {
  method: string;
  cells: Record<string, CellData>;
  chosen: string | null;
  target: string | null;
}

/** A cell of a table: a metric of a model, or of a method with its mean over seeds. */
interface CellData {
  value: Plain;
  low?: Plain;
  high?: Plain;
  level?: number;
  when_calibrated?: MeasuredData;
  floor?: Plain;
  caveat?: string;
  no_interval?: string;
  absent?: string;
  std?: Plain;
  n?: number;
  values?: Plain[];
  best?: boolean;
  tie?: boolean;
  p_value?: number | null;
  against?: Record<string, AgainstData>;
}

/** A method of a study minus another one: its 95 % interval, its p-value, and what the study would have seen. */
interface AgainstData {
  value: Plain;
  low: Plain;
  high: Plain;
  p_value: number;
  least: Plain;
  by_rows: number;
  same: boolean;
}

/** The reliability of one method. */
interface Curves {
  num_samples: number;
  prediction: PooledCells;
  output: PooledCells;
}

/** Cells of all seeds, and the ECE of each seed for each number of bins. */
interface PooledCells {
  count: number[];
  score_sum: number[];
  hit_sum: number[];
  exact?: Record<string, Sums>;
  bands?: Record<string, Plain[][]>;
  ece: Record<string, number[]>;
}

/** All values that were tried. */
interface Sweep {
  letters?: Record<string, string>;
  points: SweepPoint[];
}

/** A set of values that a method tried, with its validation metrics. */
interface SweepPoint {
  method: string;
  values: Record<string, number>;
  epochs: number;
  validation: Record<string, Plain>;
  seeds: number;
  chosen: number;
}

/** An out-of-distribution set: the scores of each method in cells, and how well they detect it. */
interface UnknownOfMethods {
  name: string;
  count: Record<string, number[]>;
  mean: Record<string, number>;
  auroc: Record<string, number>;
  fpr_at_95: Record<string, number>;
  auroc_mutual_information?: Record<string, number>;
}

/** The curves of one training. */
interface History {
  method: string;
  seed: number;
  epochs: number[];
  values: Record<string, Plain[]>;
}

/** A paired comparison of two models in one metric. */
interface Compared {
  difference: Plain;
  low: Plain;
  high: Plain;
  metric: string;
  a: string;
  b: string;
  p_value: number;
  significant: boolean;
}

/** For each class, how many samples each model gets right, which one leads, and whether that is beyond chance. */
interface ClassesOfModels {
  size: number[];
  right: Record<string, number[]>;
  best: (number | null)[];
  beyond_chance: boolean[];
}

/** For every two models, the share of samples with the same answer, and with the same wrong answer. */
interface Agreement {
  same: number[][];
  same_mistake: number[][];
  all_right: number;
  all_wrong: number;
}

/** The page of a similarity. */
interface InspectionPage {
  format: "softkin report";
  version: number;
  softkin: string;
  name: string;
  source: string | null;
  num_classes: number;
  class_names: string[];
  kind: "similarity";
  similarity: Similarity;
  merges: any[];
  oddities: Oddity[];
  closest: number[][];
  rows: Record<string, number>[];
  uniform_epsilon: number;
  fixes: Record<string, string[]>;
  learned: LearnedPair[];
}

/** Something that looks wrong in a row of a similarity. */
interface Oddity {
  kind: string;
  k: number;
  words: string;
}

/** What a network found similar, epoch by epoch. */
interface LearnedPair {
  a: number;
  b: number;
  shares: (number | null)[];
}

/** The page of what a command compares. */
interface ResultsPage {
  format: "softkin report";
  version: number;
  softkin: string;
  name: string;
  source: string | null;
  num_classes: number;
  class_names: string[];
  kind: "results";
  subject: "calibrators" | "rules" | "sources" | "limits";
  headline: string;
  tone: "good" | "bad" | "plain";
  detail: string;
  columns: Column[];
  rows: ResultRow[];
  chart: string[];
  lines: Record<string, ReferenceLine>;
  notes: string[];
}

/** A calibrator, a rule, a source of similarity, or a limit. */
interface ResultRow {
  name: string;
  cells: Record<string, ResultCell>;
  mark: "best" | "worse" | "kept" | "open" | "broken" | null;
  note: string;
  limit?: LimitShown;
  reference?: Record<string, Plain>;
}

/** A measure with its interval. */
interface ResultCell {
  value?: Plain;
  low?: Plain;
  high?: Plain;
  chance?: Plain;
}

/** A limit that a number must keep. */
interface LimitShown {
  kind: "max" | "min" | "within";
  metric: string;
  value: number;
  percent: boolean;
}

/** A value with which all rows are to be compared. */
interface ReferenceLine {
  value: number;
  title: string;
}

/** The page of a log that is watched. */
interface MonitorPage {
  format: "softkin report";
  version: number;
  softkin: string;
  name: string;
  source: string | null;
  num_classes: number;
  class_names: string[];
  kind: "monitor";
  headline: string;
  tone: "good" | "bad" | "plain";
  detail: string;
  rows: number;
  alarm: AlarmShown | null;
  needed: number;
  tolerance: number;
  windows: WindowShown[];
  course: [number, number][];
  notes: string[];
}

/** The row at which the evidence sufficed, and how the claims are wrong. */
interface AlarmShown {
  row: number;
  direction: string;
  time: string | null;
}

/** Rows of a log that follow one another: what they claimed, and what came true. */
interface WindowShown {
  name: string;
  rows: number;
  first: number;
  last: number;
  claimed: number;
  right: ResultCell;
  gap: ResultCell;
}

/** The fields of all pages; of a field that differs from page to page, nothing is known. */
interface PageData {
  format: "softkin report";
  version: number;
  softkin: string;
  name: string;
  source: string | null;
  num_classes: number;
  class_names: string[];
  kind: "comparison" | "model" | "monitor" | "results" | "similarity";
  num_samples: number;
  bins: number[];
  metrics: MetricData[];
  are_probabilities: boolean;
  pairs: any;
  binary: Binary | null;
  class_sizes: number[];
  level: number;
  quantile: number;
  class_quantile: number;
  resamples: number;
  n_bins: number;
  abstain: Target;
  class_bins: number;
  variants: Variant[];
  calibrators: TriedCalibrator[];
  samples: Record<string, Sample>;
  rows: any;
  ids_called: string | null;
  similarity: any;
  out_of_distribution: Unknown[];
  unknown: UnknownSeen[];
  groups: GroupsShown | null;
  sampled: SampledRows | null;
  calibrated_by: string | null;
  votes: boolean;
  mutual_information: Disagreement | null;
  decisions: Decisions | null;
  subject: "calibrators" | "rules" | "sources" | "limits" | "methods" | "models" | "labels";
  notes: string[];
  recommendation: string[];
  seeds: number[];
  methods: Method[];
  overview: Overview | null;
  table: TableData;
  curves: Record<string, Curves> | null;
  sweep: Sweep | null;
  ood: UnknownOfMethods[] | null;
  histories: History[] | null;
  verdicts: Record<string, Verdict> | null;
  classes: ClassesOfModels | null;
  agreement: Agreement | null;
  merges: any[];
  oddities: Oddity[];
  closest: number[][];
  uniform_epsilon: number;
  fixes: Record<string, string[]>;
  learned: LearnedPair[];
  headline: string;
  tone: "good" | "bad" | "plain";
  detail: string;
  columns: Column[];
  chart: string[];
  lines: Record<string, ReferenceLine>;
  alarm: AlarmShown | null;
  needed: number;
  tolerance: number;
  windows: WindowShown[];
  course: [number, number][];
  [added: string]: any;
}
