//! Equal pages, which the kernel merges (KSM).

use nodeward_linux::trouble::{Meddling, meddle, merge_equal_pages};

use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand};
use crate::lot::Lot;
use crate::setting::Setting;

pub const WHAT: &str = "equal pages that the kernel merges (KSM), written now and then";

struct Merge {
    lots: Vec<Lot<'static>>,
    _settings: Vec<Setting>,
}

/// Makes the kernel merge as fast as it can, in all of our memory if it supports that.
pub fn make(site: &mut Site<'_>) -> Made {
    site.needs_the_machine()?;
    let settings = [("sleep_millisecs", "1"), ("pages_to_scan", "2000"), ("run", "1")];
    let change = |(file, text)| Setting::change(&format!("/sys/kernel/mm/ksm/{file}"), text);
    let settings = settings.into_iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let lots: Vec<_> = site.ground.lots(Use::Plain).into_iter().map(Lot::equal).collect();
    if merge_equal_pages(true).is_err() {
        let merge = |lot: &Lot| meddle(lot.words(), Meddling::Merge);
        lots.iter().try_for_each(merge).map_err(|error| Skipped(format!("KSM: {error}")))?;
    }
    one(Merge { lots, _settings: settings })
}

impl Means for Merge {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.lots);
        // All pages alike, then one of them changed; after a while it is like the others again.
        if hand.once_in(4) {
            let all = 0..lot.pages();
            hand.does("write equal pages", lot, &all);
            lot.check(all.clone())?;
            lot.level();
        } else {
            let pages = hand.pages(lot);
            hand.does("check", lot, &pages);
            lot.check(pages)?;
        }
        std::thread::sleep(std::time::Duration::from_millis(hand.dice.below(20) as u64));
        if hand.once_in(4) { hand.turn(lot) } else { Ok(()) }
    }

    fn end(&mut self, _hand: &mut Hand) -> Result<(), Fault> {
        merge_equal_pages(false).ok();
        Ok(())
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.lots
    }
}
