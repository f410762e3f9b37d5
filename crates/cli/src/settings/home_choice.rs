//! Where a group is to be, as it is typed: a home, or a device that it is to be near to.

use std::path::Path;
use std::str::FromStr;

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::device_nodes::{self, Device};
use nodeward_machine::Machine as _;
use nodeward_model::GroupHome;

/// A home, or a device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupHomeChoice {
    /// The home.
    Given(GroupHome),
    /// The nearest node with CPUs.
    Near(Device),
}

impl FromStr for GroupHomeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("near:") {
            Some(device) => device.parse().map(Self::Near).map_err(|error| error.to_string()),
            None => text.parse().map(Self::Given).map_err(|error| error.to_string()),
        }
    }
}

impl GroupHomeChoice {
    /// Returns the home, on this machine.
    ///
    /// # Errors
    /// If there is no such device, or nothing tells where it is.
    pub fn resolve(&self) -> Result<GroupHome> {
        match self {
            Self::Given(home) => Ok(home.clone()),
            Self::Near(device) => {
                let topology = Linux::open().topology()?;
                let node = device_nodes::near(Path::new("/"), device, &topology)?;
                Ok(GroupHome::Nodes([node].into_iter().collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a device is told from a home by its beginning, and what is neither is named.
    #[test]
    fn homes_and_devices() {
        assert_eq!("0-1".parse(), Ok(GroupHomeChoice::Given("0-1".parse().unwrap())));
        let near = "near:netdev:eth0".parse::<GroupHomeChoice>();
        assert_eq!(near, Ok(GroupHomeChoice::Near(Device::Netdev("eth0".to_owned()))));
        for (text, told) in [("near:eth0", "is no device"), ("left", "is no home")] {
            assert!(text.parse::<GroupHomeChoice>().unwrap_err().contains(told), "{text}");
        }
        let missing = "near:netdev:nowhere".parse::<GroupHomeChoice>().unwrap().resolve();
        assert!(missing.unwrap_err().to_string().contains("no device netdev:nowhere"));
    }
}
