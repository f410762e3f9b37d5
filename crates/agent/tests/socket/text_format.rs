//! A strict reader of Prometheus' text format 0.0.4: it takes what the format allows and nothing
//! else, and panics with the line that it does not take.

use std::collections::{BTreeMap, BTreeSet};

/// A sample: the name of its metric, its labels, its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// All metrics of a text.
#[derive(Debug, Default)]
pub struct Metrics {
    /// The type of each metric.
    pub types: BTreeMap<String, String>,
    pub samples: Vec<Sample>,
}

impl Metrics {
    /// Reads a text.
    pub fn read(text: &str) -> Self {
        assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
        let mut all = Self::default();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let name = help_name(line);
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.unwrap_or_else(|| panic!("no type behind: {line}"));
            let twice = all.types.insert(name.to_owned(), kind.to_owned());
            assert_eq!(twice, None, "{name} comes twice");
            let first = all.samples.len();
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                all.samples.push(sample(line));
            }
            check_family(name, kind, &all.samples[first..]);
        }
        all
    }

    /// Returns the value of the sample with these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let labels: BTreeMap<String, String> = labels.collect();
        let found = self.samples.iter().find(|it| it.name == name && it.labels == labels);
        found.map(|sample| sample.value)
    }

    /// Returns the sum of all samples of a metric.
    pub fn sum(&self, name: &str) -> f64 {
        self.samples.iter().filter(|it| it.name == name).map(|it| it.value).sum()
    }
}

fn help_name(line: &str) -> &str {
    let rest = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("no help: {line}"));
    let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
    assert!(is_name(name) && !help.is_empty(), "{line}");
    name
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (key, behind) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            let (value, behind) = label_value(behind).unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(key), "{line}");
            assert_eq!(labels.insert(key.to_owned(), value), None, "{line}");
            rest = behind.strip_prefix(',').unwrap_or(behind);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    Sample { name: name.to_owned(), labels, value }
}

/// Returns the value up to its quotation mark, and what is behind that.
fn label_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            (_, c) => value.push(c),
        }
    }
}

fn check_family(name: &str, kind: &str, samples: &[Sample]) {
    assert!(!samples.is_empty(), "{name} has no samples");
    let mut seen = BTreeSet::new();
    for sample in samples {
        let key = format!("{} {:?}", sample.name, sample.labels);
        assert!(seen.insert(key), "twice: {sample:?}");
        let suffixes: &[&str] =
            if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        let is_of_it = suffixes.iter().any(|suffix| sample.name == format!("{name}{suffix}"));
        assert!(is_of_it, "{sample:?} below {name}");
        assert!(sample.value >= 0.0, "{sample:?}");
    }
    match kind {
        "counter" => assert!(name.ends_with("_total"), "{name}"),
        "gauge" => assert!(!name.ends_with("_total"), "{name}"),
        "histogram" => check_histogram(name, samples),
        _ => panic!("{name} is a {kind}"),
    }
}

/// Buckets ascend, by bound and by count; the last has all.
fn check_histogram(name: &str, samples: &[Sample]) {
    let buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter(|sample| sample.name == format!("{name}_bucket"))
        .map(|sample| (sample.labels["le"].replace("+Inf", "inf").parse().unwrap(), sample.value))
        .collect();
    assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1), "{name}");
    let count = samples.iter().find(|sample| sample.name == format!("{name}_count")).unwrap();
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, count.value)), "{name}");
}
