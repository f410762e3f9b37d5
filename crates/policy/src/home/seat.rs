//! A home by positions of nodes, and what is remembered of it between rounds.

use nodeward_model::Nodemask;
use serde::{Deserialize, Serialize};

use super::ground::{Ground, Place};
use super::mean::MeanLoad;
use super::plan::Home;
use super::reason::Reason;
use super::trial::Trial;
use super::view::View;
use crate::damping::Backoff;

/// A home in this round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// Threads and memory on one node.
    One(Place),
    /// On several.
    Spread(Vec<Place>),
    /// Threads on one node, memory on several.
    Interleave { threads: Place, memory: Vec<Place> },
}

impl Seat {
    /// The seat of a home; `None` if the entity can no longer be there.
    pub(super) fn of(home: &Home, view: &View, ground: &Ground) -> Option<Self> {
        let is_home = |place: &Place| view.reachable.contains(place);
        match home {
            Home::Node(node) => ground.place(*node).filter(is_home).map(Self::One),
            Home::Spread(nodes) => {
                places(nodes, ground).filter(|places| places.iter().all(is_home)).map(Self::Spread)
            }
            Home::Interleave { threads, memory } => {
                let threads = ground.place(*threads).filter(is_home)?;
                let memory = places(memory, ground)?;
                let may = |place: &Place| view.entity.may_hold.contains(ground.id(*place));
                memory.iter().all(may).then_some(Self::Interleave { threads, memory })
            }
        }
    }

    /// The home, to be told and kept.
    pub(super) fn home(&self, ground: &Ground) -> Home {
        let mask = |places: &[Place]| places.iter().map(|&place| ground.id(place)).collect();
        match self {
            Self::One(place) => Home::Node(ground.id(*place)),
            Self::Spread(places) => Home::Spread(mask(places)),
            Self::Interleave { threads, memory } => {
                Home::Interleave { threads: ground.id(*threads), memory: mask(memory) }
            }
        }
    }

    /// Where its threads belong.
    pub(super) fn threads(&self) -> &[Place] {
        match self {
            Self::One(place) | Self::Interleave { threads: place, .. } => {
                std::slice::from_ref(place)
            }
            Self::Spread(places) => places,
        }
    }

    /// Where its memory belongs, each node once.
    pub(super) fn stores(&self, ground: &Ground) -> Vec<Place> {
        let mut stores: Vec<Place> = match self {
            Self::Interleave { memory, .. } => memory.clone(),
            _ => self.threads().iter().filter_map(|&place| ground.store(place)).collect(),
        };
        stores.sort_unstable();
        stores.dedup();
        stores
    }
}

fn places(nodes: &Nodemask, ground: &Ground) -> Option<Vec<Place>> {
    nodes.iter().map(|node| ground.place(node)).collect()
}

/// An entity between rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Where it is at home.
    pub(super) home: Home,
    /// Why there.
    pub(super) why: Reason,
    /// Its load.
    pub(super) load: MeanLoad,
    /// When its home may be moved again.
    pub(super) moves: Backoff,
    /// When its memory may be interleaved again.
    pub(super) opens: Backoff,
    /// How moves of its memory went.
    pub(super) memory: Trial,
}

impl Kept {
    /// An entity that has just got its home.
    pub(super) fn new(home: Home, why: Reason, load_ppm: u64) -> Self {
        let (moves, opens, memory) = (Backoff::default(), Backoff::default(), Trial::default());
        Self { home, why, load: MeanLoad::new(load_ppm), moves, opens, memory }
    }
}
