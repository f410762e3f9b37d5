//! The loads that a command line names: those of the documentation, and scenarios.

use anyhow::{Result, bail};
use nodeward_experiments::compare::{CASES, CompareCase, Requirement};
use nodeward_model::Escape as _;
use nodeward_scenario::{BUILT_IN, Scenario};

use crate::args::CompareArgs;

/// A load that is to be run, with the values of scenario keys that the command line sets.
pub struct NamedLoad<'a> {
    name: &'a str,
    about: String,
    scenario: &'a str,
    overrides: Vec<(&'a str, &'a str)>,
    requirement: Requirement,
    with_patches: bool,
}

impl<'a> NamedLoad<'a> {
    /// Returns the load as it is compared.
    pub fn case(&self) -> CompareCase<'_> {
        CompareCase {
            name: self.name,
            about: &self.about,
            scenario: self.scenario,
            overrides: &self.overrides,
            requirement: self.requirement,
            with_patches: self.with_patches,
        }
    }

    /// A load of the documentation. Nothing is asked of nodeward on a changed one, or if it has
    /// other settings.
    fn documented(
        args: &CompareArgs,
        case: CompareCase<'static>,
        sets: &[(&'a str, &'a str)],
    ) -> Self {
        let is_as_documented = sets.is_empty() && args.settings.is_none();
        Self {
            name: case.name,
            about: case.about.to_owned(),
            scenario: case.scenario,
            overrides: [case.overrides, sets].concat(),
            requirement: match is_as_documented {
                true => case.requirement,
                false => Requirement::FiguresOnly,
            },
            with_patches: case.with_patches,
        }
    }

    /// A built-in scenario or a file, on which nothing is asked of nodeward. Balancers decide
    /// whether the kernel balances, and not the scenario.
    fn scenario(name: &'a str, sets: &[(&'a str, &'a str)]) -> Result<Self> {
        let scenario = Scenario::find_with(name, sets)?;
        if scenario.workloads.is_empty() {
            bail!("{} has no [[workload]]: there is nothing to balance", name.escaped());
        }
        let mut overrides = sets.to_vec();
        if scenario.numa_balancing {
            overrides.push(("numa-balancing", "false"));
        }
        Ok(Self {
            name,
            about: scenario.about,
            scenario: name,
            overrides,
            requirement: Requirement::FiguresOnly,
            with_patches: false,
        })
    }
}

/// Returns the loads that are named, each once; if none is, those of the documentation, or of the
/// figure that is measured.
pub fn named<'a>(args: &'a CompareArgs, sets: &[(&'a str, &'a str)]) -> Result<Vec<NamedLoad<'a>>> {
    if args.loads.is_empty() {
        let is_meant = |case: &CompareCase| args.figure.is_none_or(|figure| figure.is_of(case));
        let all = CASES.into_iter().filter(is_meant);
        return Ok(all.map(|case| NamedLoad::documented(args, case, sets)).collect());
    }
    let mut loads: Vec<NamedLoad> = Vec::new();
    for name in &args.loads {
        if loads.iter().all(|load| load.name != name) {
            loads.push(find(args, name, sets)?);
        }
    }
    Ok(loads)
}

fn find<'a>(
    args: &CompareArgs,
    name: &'a str,
    sets: &[(&'a str, &'a str)],
) -> Result<NamedLoad<'a>> {
    if let Some(case) = CASES.into_iter().find(|case| case.name == name) {
        return Ok(NamedLoad::documented(args, case, sets));
    }
    let is_built_in = BUILT_IN.iter().any(|(known, _)| *known == name);
    let is_path = name.contains(['/', '.']);
    if args.docs.is_some() {
        bail!("--docs writes the page of the documentation's loads; {} is none", name.escaped());
    }
    if !is_built_in && !is_path {
        let names = CASES.map(|case| case.name).join(", ");
        bail!(
            "no load {}; there are {names}, the scenarios of `nodeward sim --list`, and files: \
             give yours with its directory, ./{}",
            name.escaped(),
            name.escaped()
        );
    }
    NamedLoad::scenario(name, sets)
}
