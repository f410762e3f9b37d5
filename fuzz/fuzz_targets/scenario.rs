//! Scenarios: any text is read or refused with a line of it, and what is read makes sense. Behind a
//! zero byte stands an override.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_scenario::{ErrorLocation, Scenario};

fuzz_target!(|input: &str| {
    let (text, set) = input.split_once('\0').unwrap_or((input, ""));
    let set: Vec<_> = set.split_once('=').into_iter().collect();
    match Scenario::with("fuzz", text, &set) {
        Ok(scenario) => assert_eq!(scenario.check(), Ok(())),
        Err(error) => {
            assert!(!error.problem.is_empty() && !error.expected.is_empty());
            let lines = text.split('\n').count() as u32;
            let within = error.line().is_some_and(|line| (1..=lines).contains(&line));
            assert!(within || matches!(error.location, ErrorLocation::Override(_)), "{error}");
        }
    }
});
