//! A balancer inside a program, for the groups of that program alone, where no agent runs.
//!
//! An [`OwnBalancer`] has a thread, which makes the rounds of `nodeward balance` for this process:
//! the same rule, the same moves. It places groups; what is in no group stays where it is. Programs
//! use it as they use an agent, by a [`GroupAgent`](nodeward::GroupAgent), also with a
//! [`HomeFollower`](nodeward::HomeFollower), whose pager then moves memory of regions.
//!
//! ```
//! use nodeward::GroupHome;
//! use nodeward_own_balancer::{OwnBalancer, OwnOptions, StartFailure};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! match OwnBalancer::start(&OwnOptions::default()) {
//!     Ok(balancer) => {
//!         let group = balancer.agent().make("part-0", &GroupHome::Auto)?;
//!         let part = vec![0_u64; 1 << 20];
//!         group.add_slice(&part)?;
//!         group.add_current_thread()?;
//!         println!("{:?}", balancer.status());
//!     } // here its thread ends
//!     Err(StartFailure::AgentAnswers { .. }) => println!("make the groups at the agent"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod agent_presence;
mod one_each;
mod own_balancer;
mod own_groups;
mod rounds;
mod shared;

pub use nodeward_balancer::RivalMode;
pub use nodeward_model::OtherBalancer;
pub use own_balancer::{OwnBalancer, OwnOptions, StartFailure};
pub use shared::OwnStatus;
