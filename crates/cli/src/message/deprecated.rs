//! Reports the old name of an option or a setting. Each name is reported once in a run.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reports an old name and what to use instead, unless that was done before.
pub fn report_deprecated(old: &str, new: &str) {
    if is_first(&REPORTED, old) {
        say!("warning: {old} is deprecated; use {new}");
    }
}

fn is_first(reported: &Mutex<BTreeSet<String>>, old: &str) -> bool {
    reported.lock().unwrap_or_else(PoisonError::into_inner).insert(old.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a daemon that reads its settings again does not report an old name again.
    #[test]
    fn a_name_is_reported_once() {
        let reported = Mutex::default();
        let names = ["--a", "--a", "--b", "--a"];
        assert_eq!(names.map(|name| is_first(&reported, name)), [true, false, true, false]);
    }
}
