//! The condition on a measured number: `>= 1.7`, `< 50 ms`, `>= 0.9, <= 1.1`.

use std::fmt;

use serde_json::Number;

/// Limits that must all hold, in one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    limits: Vec<(Relation, f64)>,
    /// The unit of every limit and of the measured number.
    pub unit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
}

/// The spellings, longest first so that `>=` is not read as `>`.
const RELATIONS: &[(&str, Relation)] = &[
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::Above),
    ("<", Relation::Below),
    ("=", Relation::Equal),
];

impl Bound {
    /// Parses a bound; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Bound, String> {
        let mut limits = Vec::new();
        let mut units = Vec::new();
        for part in text.split(',') {
            let (relation, number, unit) = limit(part.trim())?;
            limits.push((relation, number));
            units.push(unit);
        }
        let unit = units[0].clone();
        if units.iter().any(|other| *other != unit) {
            return Err(format!(
                "bound `{text}` mixes units; write the same unit after each limit"
            ));
        }
        Ok(Bound { limits, unit })
    }

    /// Returns whether the number satisfies every limit.
    pub fn holds(&self, measured: &Number) -> bool {
        let Some(measured) = measured.as_f64() else { return false };
        self.limits.iter().all(|(relation, limit)| relation.holds(measured, *limit))
    }
}

impl Relation {
    fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Relation::AtLeast => measured >= limit,
            Relation::AtMost => measured <= limit,
            Relation::Above => measured > limit,
            Relation::Below => measured < limit,
            Relation::Equal => measured.total_cmp(&limit).is_eq(),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelling = RELATIONS.iter().find(|(_, relation)| relation == self);
        f.write_str(spelling.map_or("?", |(text, _)| text))
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (relation, limit)) in self.limits.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{relation} {limit}")?;
            if let Some(unit) = &self.unit {
                write!(f, " {unit}")?;
            }
        }
        Ok(())
    }
}

fn limit(text: &str) -> Result<(Relation, f64, Option<String>), String> {
    let wanted = || format!("bound `{text}` is not `>= NUMBER UNIT` (or `<=`, `>`, `<`, `=`)");
    let start = |(spelling, relation): &(&str, Relation)| {
        text.strip_prefix(*spelling).map(|rest| (*relation, rest))
    };
    let (relation, rest) = RELATIONS.iter().find_map(start).ok_or_else(wanted)?;
    let mut words = rest.split_whitespace();
    let number: f64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(wanted)?;
    if !number.is_finite() {
        return Err(wanted());
    }
    let unit = words.collect::<Vec<_>>().join(" ");
    Ok((relation, number, (!unit.is_empty()).then_some(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(bound: &str, measured: f64) -> bool {
        Bound::parse(bound).unwrap().holds(&Number::from_f64(measured).unwrap())
    }

    #[test]
    fn each_relation_stands_on_the_right_side_of_its_limit() {
        assert!(holds(">= 1.7", 1.7) && !holds(">= 1.7", 1.69));
        assert!(holds("<= 2", 2.0) && !holds("<= 2", 2.01));
        assert!(holds("> 0", 0.1) && !holds("> 0", 0.0));
        assert!(holds("< 50 ms", 49.9) && !holds("< 50 ms", 50.0));
        assert!(holds("= 0 pages", 0.0) && !holds("= 0 pages", 1.0));
    }

    #[test]
    fn a_range_is_two_limits() {
        assert!(holds(">= 0.9, <= 1.1", 1.0));
        assert!(!holds(">= 0.9, <= 1.1", 1.2));
        assert!(!holds(">= 0.9, <= 1.1", 0.8));
    }

    #[test]
    fn a_bound_prints_as_it_was_read() {
        for text in [">= 1.7", "< 50 ms", ">= 0.9 GB/s, <= 1.1 GB/s"] {
            assert_eq!(Bound::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_bound_is_refused() {
        for text in ["", "1.7", "=> 1", ">= fast", ">= NaN", ">= 1,", ">= 1 ms, < 2 s"] {
            assert!(Bound::parse(text).is_err(), "{text}");
        }
    }
}
