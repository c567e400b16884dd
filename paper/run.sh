#!/bin/sh
# Every study behind docs/results.md, by released commands alone. Finished runs are kept: the same command goes on.
#
#   sh paper/run.sh DATA FOLDER [GROUP…]
#
# DATA holds cifar100/, tiny-imagenet/ and taxonomy/ as their makers publish them. FOLDER receives the studies; paper/features.py
# puts features/ there first. GROUP is one of intents, transfer, small, regime, scratch, whole, tiny, sweeps, after; default: all.
# Environment variables: WORKERS, how many runs go at a time (default: 1); SEEDS, instead of the number in each study; ROWS of a
# class in "transfer" (default: 100 10 400); INTENTS (default: banking77 clinc150); REGIMES of "scratch" (default: step-1e-4
# cosine-5e-4); METHODS, instead of those in each study; VARIANTS of smoothing (default: auto fixed top5; also tuned); SOFTKIN, how softkin is called.
set -eu
data=$1 folder=$2
shift 2
here=$(dirname "$0")
softkin=${SOFTKIN:-softkin}
head="mlp(hidden=256,layers=1)"
frozen="--recipe paper --lr 0.05 --schedule one-cycle --warmup-epochs 0 --augmentation none"
aliases="--alias 401k=pension" # GloVe has no "401k", which one of CLINC150's intents is about
tree="--tree $data/taxonomy/cifar100-parent-child.csv"
thin="--model wrn(units=1) --size 16 --recipe paper --augmentation flip" # as in studies/scratch-*.toml, tiny.toml and whole.toml
few="$thin --epochs 40 --batch-size 64"
unknown="--ood uniform,$data/tiny-imagenet"

study() { # NAME CONFIG OPTIONS…
  name=$1 config=$2
  shift 2
  # --force: with more seeds or methods than before, a study goes on in its folder and keeps the runs that both have.
  $softkin compare --config "$here/studies/$config.toml" --output "$folder/$name" --force --workers "${WORKERS:-1}" --device cpu "$@" ${SEEDS:+--seeds $SEEDS} ${METHODS:+--methods $METHODS} >"$folder/$name.txt"
  echo "$name: done"
}

# A network of another seed than any study's: what it takes for what on validation rows is a similarity.
baseline() { # NAME TRAINING…
  name=$1
  shift
  [ -e "$folder/$name-baseline/record.json" ] || $softkin train "$@" --seed 1000 --device cpu --output "$folder/$name-baseline" >/dev/null
  sources="--outputs $folder/$name-baseline/validation.safetensors"
}

# The same, and GloVe's distances between the classes in NAMES.
shared() { # NAME NAMES TRAINING…
  name=$1 names=$2
  shift 2
  [ -e "$folder/$name-glove" ] || $softkin similarity measure "$names" --vectors glove $aliases --output "$folder/$name-glove" >/dev/null
  baseline "$name" "$@"
  sources="$sources --matrix $folder/$name-glove/distances.safetensors"
}

# The same data with α chosen by itself, fixed, the one of four with the lowest NLL on validation rows, and with the five most
# similar classes only.
smoothings() { # NAME CONFIG METHODS OPTIONS…
  data_set=$1 settings=$2 methods=$3 # other words than in study(): variables of sh are global
  shift 3
  for variant in ${VARIANTS:-auto fixed top5}; do
    case $variant in
      auto) study "$data_set" "$settings" "$@" ;;
      fixed) study "$data_set-fixed" "$settings" "$@" --methods "$methods" --alpha 0.1 ;;
      tuned) study "$data_set-tuned" "$settings" "$@" --methods "$methods" --alpha 0.02,0.05,0.1,0.2 ;;
      top5) study "$data_set-top5" "$settings" "$@" --methods "$methods" --top-m 5 ;;
    esac
  done
}

words=one-hot,ts,uniform,uniform+ts,l2,l2+ts,we,we+ts,file,file+ts,out,out+ts

# CLINC150 has queries of no intent, too: unknown data.
intents() {
  for name in ${INTENTS:-banking77 clinc150}; do
    shared $name "$folder/features/$name.txt" "$folder/features/$name" --model "$head" $frozen --epochs 15
    [ $name = banking77 ] || sources="$sources --ood $folder/features/$name-oos.npz"
    smoothings $name intents $words --data "$folder/features/$name" $sources
  done
}

transfer() {
  for rows in ${ROWS:-100 10 400}; do
    epochs=$((rows == 10 ? 60 : rows == 100 ? 20 : 6))
    name=cifar100-features-$rows
    shared $name "$here/../examples/cifar100.txt" "$folder/features/cifar100" --model "$head" $frozen --epochs $epochs \
      --max-per-class $rows --validation 5000
    smoothings $name transfer $words,tree,tree+ts --data "$folder/features/cifar100" --max-per-class $rows --epochs $epochs \
      $tree $sources
  done
}

small() {
  study digits small --data digits
  study fashion-mnist small --data fashion-mnist --max-per-class 100 --validation 1000 --methods \
    one-hot,ts,ets,dir-odir,uniform,uniform+ts,mixup,mixup+ts,l2,l2+ts,we,we+ts
}

# Which schedule and weight decay make one-hot training as over-confident as the paper's; "scratch" adds the other methods.
regime() {
  for schedule in step cosine; do
    for decay in 1e-4 5e-4; do
      study "scratch-$schedule-$decay" "scratch-$schedule-$decay" --data "$data/cifar100" --methods one-hot,ts $unknown
    done
  done
}

scratch() {
  for regime in ${REGIMES:-step-1e-4 cosine-5e-4}; do
    shared "scratch-$regime" "$here/../examples/cifar100.txt" "$data/cifar100" $few --max-per-class 50 --validation 2500 \
      --schedule "${regime%%-*}" --weight-decay "${regime#*-}"
    smoothings "scratch-$regime" "scratch-$regime" $words,l1,l1+ts,ae,ae+ts,tree,tree+ts --data "$data/cifar100" $unknown $tree $sources
  done
}

# All images, which the same network fits far less well.
whole() {
  baseline scratch-whole "$data/cifar100" $thin --epochs 12 --batch-size 128 --validation 5000 --schedule step --weight-decay 1e-4
  smoothings scratch-whole whole one-hot,ts,uniform,uniform+ts,we,we+ts,tree,tree+ts,out,out+ts --data "$data/cifar100" $unknown $tree $sources
}

# Most of table 2's columns at a size that takes an hour. The table's own networks: softkin paper run table2 --scale full
tiny() {
  baseline tiny-imagenet "$data/tiny-imagenet" $few --max-per-class 20 --validation 1000 --schedule step --weight-decay 1e-4
  study tiny-imagenet tiny --data "$data/tiny-imagenet" $sources
}

sweeps() {
  for alpha in 0.01 0.02 0.05 0.1 0.2 0.4; do
    study "sweep-alpha-$alpha" transfer --data "$folder/features/cifar100" --max-per-class 100 --methods one-hot,uniform,we --alpha $alpha --beta 2 --seeds 5
  done
  for beta in 0.5 1 2 4 6; do
    study "sweep-beta-$beta" transfer --data "$folder/features/cifar100" --max-per-class 100 --methods one-hot,we --alpha 0.1 --beta $beta --seeds 5
  done
}

# Decisions with the networks of the studies that are there.
after() {
  ${PYTHON:-python} "$here/after.py" "$folder"
}

mkdir -p "$folder"
for group in ${*:-intents transfer small regime sweeps scratch whole tiny after}; do
  $group
done
