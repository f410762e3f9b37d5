//! Arguments of `run`.

use std::ffi::OsString;
use std::str::FromStr;

use clap::Args;
use nodeward_linux::device_nodes::{self, Device};
use nodeward_model::NodeId;

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "nodeward run [--home NODE|auto] [--pin] [--no-kernel-balancing] [--] COMMAND \
                      [ARGUMENT]..."
)]
pub struct RunArgs {
    /// The home: the number of a node, a device near which it is, such as netdev:eth0 or gpu:0, or
    /// auto for the node with most idle CPU time and enough free memory [default: auto]
    #[arg(long, value_name = "NODE|auto")]
    pub home: Option<HomeChoice>,
    /// Restrict the program to the CPUs of its home; without it the program only starts there
    #[arg(long)]
    pub pin: bool,
    /// Keep the kernel's NUMA balancing away from it, and do nothing else, unless --home or --pin
    /// is given, too (a home keeps it away anyhow)
    #[arg(long)]
    pub no_kernel_balancing: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The home that the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeChoice {
    /// The node with most idle CPU time.
    Auto,
    /// This node.
    Node(NodeId),
    /// The nearest node with CPUs.
    Near(Device),
}

impl RunArgs {
    /// Returns the choice of a home; `None` if it gets none.
    pub fn home(&self) -> Option<HomeChoice> {
        let needs_home = self.pin || !self.no_kernel_balancing;
        self.home.clone().or(needs_home.then_some(HomeChoice::Auto))
    }
}

impl FromStr for HomeChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(device) = device_nodes::named(text) {
            return device.map(Self::Near).map_err(|error| error.to_string());
        }
        match text.parse() {
            Ok(number) => Ok(Self::Node(NodeId(number))),
            Err(_) if text == "auto" => Ok(Self::Auto),
            Err(_) => Err(format!("'{text}' is not the number of a node, nor a device, nor auto")),
        }
    }
}
