//! Samples of metrics as Prometheus' text format 0.0.4. (The crate prometheus-client writes
//! OpenMetrics, which node_exporter's textfiles are not.)

use std::collections::BTreeMap;

use nodeward_mover::HoldTimes;
use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use super::families::{Family, MetricKind};

/// Metrics with their samples.
#[derive(Default)]
pub struct Exposition(Vec<MetricFamily>);

impl Exposition {
    /// Adds a metric that has no labels.
    pub fn add_one(&mut self, family: &Family, value: f64) {
        self.add(family, [([""; 0], value)]);
    }

    /// Adds a metric: the values of its labels, in their order, and the value of each sample.
    /// Without samples there is no such metric.
    pub fn add<L: ToString, const N: usize>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([L; N], f64)>,
    ) {
        let sample = |(labels, value): ([L; N], f64)| {
            let mut sample = labeled(family, &labels.map(|label| label.to_string()));
            match family.kind {
                MetricKind::Counter => sample.set_counter(counter(value)),
                MetricKind::Gauge | MetricKind::Histogram => sample.set_gauge(gauge(value)),
            }
            sample
        };
        self.add_samples(family, samples.into_iter().map(sample).collect());
    }

    /// Adds a histogram, in seconds.
    pub fn add_holds(&mut self, family: &Family, holds: &HoldTimes) {
        let mut histogram = Histogram::default();
        histogram.set_bucket(holds.up_to_bounds().map(bucket).collect());
        histogram.set_sample_count(holds.runs());
        histogram.set_sample_sum(seconds(holds.total_ns()));
        let mut sample = labeled(family, &[]);
        sample.set_histogram(histogram);
        self.add_samples(family, vec![sample]);
    }

    /// Returns the text.
    pub fn text(&self) -> String {
        // Only a metric without samples would be an error, and there is none.
        TextEncoder::new().encode_to_string(&self.0).unwrap_or_default()
    }

    fn add_samples(&mut self, family: &Family, samples: Vec<Metric>) {
        if samples.is_empty() {
            return;
        }
        let mut all = MetricFamily::default();
        all.set_name(family.name.to_owned());
        all.set_help(family.help.to_owned());
        all.set_field_type(match family.kind {
            MetricKind::Counter => MetricType::COUNTER,
            MetricKind::Gauge => MetricType::GAUGE,
            MetricKind::Histogram => MetricType::HISTOGRAM,
        });
        all.set_metric(samples);
        self.0.push(all);
    }
}

/// Returns counts as samples of a metric with one label.
pub fn counts<'a, L: ToString + Clone>(
    counts: &'a BTreeMap<L, u64>,
) -> impl Iterator<Item = ([L; 1], f64)> + 'a {
    counts.iter().map(|(label, &count)| ([label.clone()], count as f64))
}

/// Returns nanoseconds in seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn labeled(family: &Family, values: &[String]) -> Metric {
    let pair = |(name, value): (&&str, &String)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value(value.clone());
        pair
    };
    let mut sample = Metric::default();
    sample.set_label(family.labels.iter().zip(values).map(pair).collect());
    sample
}

fn counter(value: f64) -> Counter {
    let mut counter = Counter::default();
    counter.set_value(value);
    counter
}

fn gauge(value: f64) -> Gauge {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    gauge
}

fn bucket((bound_ns, runs): (u64, u64)) -> Bucket {
    let mut bucket = Bucket::default();
    bucket.set_upper_bound(seconds(bound_ns));
    bucket.set_cumulative_count(runs);
    bucket
}
