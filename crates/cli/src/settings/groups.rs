//! `[group.NAME]`: groups of threads and memory by rules, for programs that cannot be changed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use nodeward_model::{GroupHome, GroupName, GroupSpec, MemberPattern, MemorySelector};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::home_choice::GroupHomeChoice;

/// The groups of one source, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct GroupLayers(BTreeMap<GroupName, GroupLayer>);

/// A group. A higher source replaces it as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct GroupLayer {
    /// Its threads: those that any of these describes.
    #[serde(rename = "match")]
    members: Vec<Words<MemberPattern>>,
    /// Its memory in the processes of these threads.
    #[serde(default)]
    memory: Vec<Words<MemorySelector>>,
    /// Where it is to be.
    home: Option<Words<GroupHomeChoice>>,
}

/// A value that is written as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Words<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Words<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl GroupLayers {
    /// Returns these groups, and those of the layer below that have other names.
    pub fn over(mut self, below: Self) -> Self {
        for (name, group) in below.0 {
            self.0.entry(name).or_insert(group);
        }
        self
    }

    /// Returns the rules, in the order of their names.
    ///
    /// # Errors
    /// If a group matches nothing, a device is not there, or nothing tells where it is.
    pub fn rules(&self) -> Result<Vec<GroupSpec>> {
        let rule = |(name, group): (&GroupName, &GroupLayer)| {
            group.rule(name).with_context(|| format!("group.{name}"))
        };
        self.0.iter().map(rule).collect()
    }
}

impl GroupLayer {
    fn rule(&self, name: &GroupName) -> Result<GroupSpec> {
        ensure!(!self.members.is_empty(), "match is empty, so nothing is in it; describe threads");
        let home = self.home.as_ref().map(|Words(home)| home.resolve()).transpose()?;
        Ok(GroupSpec {
            name: name.clone(),
            home: home.unwrap_or(GroupHome::Auto),
            members: self.members.iter().map(|Words(member)| member.clone()).collect(),
            memory: self.memory.iter().map(|Words(memory)| memory.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::layer::SettingsLayer;

    fn rules(text: &str) -> Result<Vec<String>, String> {
        let layer: SettingsLayer = toml::from_str(text).map_err(|error| error.to_string())?;
        let words = |list: Vec<String>| list.join(", ");
        let settings = layer.balance_settings(true).map_err(|error| format!("{error:#}"))?;
        Ok(settings
            .groups
            .iter()
            .map(|rule| {
                let members = words(rule.members.iter().map(ToString::to_string).collect());
                let memory = words(rule.memory.iter().map(ToString::to_string).collect());
                format!("{}: [{members}] [{memory}] {}", rule.name, rule.home)
            })
            .collect())
    }

    /// Goal: a group is what its table says; what it leaves out is auto and no memory.
    #[test]
    fn tables_are_groups() {
        let text = "[group.kv]\nmatch = ['command:vllm* thread:Engine*', 'user:7']\n\
                    memory = ['shared', 'file:/dev/shm/kv*']\nhome = 'spread:0-1'\n\
                    [group.a]\nmatch = ['pid:1']\n";
        let shown = [
            "a: [pid:1] [] auto",
            "kv: [command:vllm* thread:Engine*, user:7] [shared, file:/dev/shm/kv*] spread:0-1",
        ];
        assert_eq!(rules(text).unwrap(), shown);
    }

    /// Goal: what is wrong is named, in the words of the group's own terms.
    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("[group.kv]\n", "missing field `match`"),
            ("[group.'a b']\nmatch = []\n", "no group name"),
            ("[group.kv]\nmatch = []\n", "group.kv: match is empty"),
            ("[group.kv]\nmatch = ['db']\n", "says nothing of threads"),
            ("[group.kv]\nmatch = ['pid:1']\nmemory = ['all']\n", "is no memory"),
            ("[group.kv]\nmatch = ['pid:1']\nhome = 'x'\n", "is no home"),
            ("[group.kv]\nmatch = ['pid:1']\nnode = 1\n", "unknown field `node`"),
            ("[group]\nkv = 1\n", "invalid type"),
        ] {
            let error = rules(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    /// Goal: a higher source replaces a group of the same name, and leaves the others.
    #[test]
    fn higher_sources_replace_groups() {
        let layer = |text: &str| toml::from_str::<SettingsLayer>(text).unwrap();
        let below =
            layer("[group.a]\nmatch = ['pid:1']\nhome = '0'\n[group.b]\nmatch = ['pid:2']\n");
        let above = layer("[group.a]\nmatch = ['pid:3']\n");
        let rules = above.over(below).balance_settings(true).unwrap().groups;
        let shown: Vec<_> =
            rules.iter().map(|rule| format!("{} {}", rule.name, rule.home)).collect();
        assert_eq!(shown, ["a auto", "b auto"]);
        assert_eq!(rules[0].members[0].to_string(), "pid:3");
    }
}
