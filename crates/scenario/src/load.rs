//! From a text to a scenario: it is parsed, overridden, read and checked.

use std::path::Path;

use crate::built_in::ScenarioText;
use crate::error::SourceError;
use crate::{Error, ErrorLocation, Scenario, check, overrides, read, toml_tree};

impl Scenario {
    /// Parses a scenario from the text of its file. Its name is taken from `name`, which may be a
    /// path.
    ///
    /// # Errors
    /// The error states the place in the text, and what was expected there.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        Self::with::<&str>(name, text, &[])
    }

    /// Parses a scenario with other values for some keys, such as `machine.latency` or
    /// `workload.stream.processes`.
    ///
    /// # Errors
    /// The error states the place in the text or the override, and what was expected there.
    pub fn with<S: AsRef<str>>(name: &str, text: &str, sets: &[(S, S)]) -> Result<Self, Error> {
        let stem = Path::new(name.strip_suffix(".toml").unwrap_or(name)).file_name();
        let stem = stem.map_or_else(|| name.into(), |stem| stem.to_string_lossy());
        read_checked(&stem, text, sets).map_err(|fault| fault.in_file(name))
    }

    /// Finds a scenario by the name of a built-in one, or else by the path of its file.
    ///
    /// # Errors
    /// As [`Scenario::parse`]; or if there is neither a built-in scenario of that name nor such a
    /// file.
    pub fn find(name_or_path: &str) -> Result<Self, Error> {
        Self::find_with::<&str>(name_or_path, &[])
    }

    /// Finds a scenario and applies overrides.
    ///
    /// # Errors
    /// As [`Scenario::with`]; or if there is neither a built-in scenario of that name nor such a
    /// file.
    pub fn find_with<S: AsRef<str>>(name_or_path: &str, sets: &[(S, S)]) -> Result<Self, Error> {
        ScenarioText::find(name_or_path)?.with(sets)
    }

    /// Checks that everything is consistent and within the limits, as it is for every scenario from
    /// a text.
    ///
    /// # Errors
    /// The error states the value, and what was expected.
    pub fn check(&self) -> Result<(), Error> {
        let flaw = check::scenario(self).and_then(|()| check::action_order(&self.actions));
        flaw.map_err(|flaw| {
            let place = ErrorLocation::Value(flaw.path.to_string());
            SourceError { location: place, problem: flaw.problem, expected: flaw.expected }
                .in_file(&self.name)
        })
    }
}

impl ScenarioText {
    /// Returns the scenario with other values for some keys.
    ///
    /// # Errors
    /// As [`Scenario::with`].
    pub fn with<S: AsRef<str>>(&self, sets: &[(S, S)]) -> Result<Scenario, Error> {
        Scenario::with(self.name(), self.text(), sets)
    }
}

fn read_checked<S: AsRef<str>>(
    name: &str,
    text: &str,
    sets: &[(S, S)],
) -> Result<Scenario, SourceError> {
    let mut root = toml_tree::parse(text)?;
    for (key, value) in sets {
        overrides::apply(&mut root, key.as_ref(), value.as_ref())?;
    }
    let mut scenario = read::scenario(name, &root)?;
    check::scenario(&scenario).map_err(|flaw| {
        let place = flaw.path.location_in(&root);
        SourceError { location: place, problem: flaw.problem, expected: flaw.expected }
    })?;
    scenario.actions.sort_by_key(|action| action.at_ns);
    Ok(scenario)
}
