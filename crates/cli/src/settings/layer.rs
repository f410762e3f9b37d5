//! All settings of one source, each of which may be missing.

use anyhow::Result;
use nodeward_balancer::BalanceSettings;
use serde::Deserialize;

use super::balance::BalanceLayer;
use super::groups::GroupLayers;
use super::moves::MoveLayer;

/// All settings of one source. The next lower source decides a missing value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SettingsLayer {
    /// Settings of moves.
    #[serde(default, rename = "move")]
    pub moves: MoveLayer,
    /// Settings of the balancer.
    #[serde(default)]
    pub balance: BalanceLayer,
    /// Groups of threads and memory.
    #[serde(default, rename = "group")]
    pub groups: GroupLayers,
}

impl SettingsLayer {
    /// Returns this layer with missing values taken from the one below.
    pub fn over(self, below: Self) -> Self {
        Self {
            moves: self.moves.over(below.moves),
            balance: self.balance.over(below.balance),
            groups: self.groups.over(below.groups),
        }
    }

    /// Returns the settings of the balancer, with defaults for missing values. If `act` is false,
    /// it only reports what it would do.
    ///
    /// # Errors
    /// If a time is out of range, or a user does not exist here.
    pub fn balance_settings(&self, act: bool) -> Result<BalanceSettings> {
        Ok(BalanceSettings { groups: self.groups.rules()?, ..self.balance.resolve(act)? })
    }
}
