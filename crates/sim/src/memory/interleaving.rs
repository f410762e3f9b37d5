//! How the parts of threads lie in the address space of their process.
//!
//! Programs are simulated by runs of pages, so a thread's part is a run. In the address space parts
//! may be interleaved nevertheless: some pages of each part, then the next ones of each, and so on.

/// How parts of equal size take turns. Pages that do not come out even lie in order behind them.
#[derive(Clone, Copy, Debug)]
pub struct Interleaving {
    /// The number of parts, 1 or more; with 1 all pages lie in order.
    pub parts: u64,
    /// Pages of a part that stay together, 1 or more.
    pub unit_pages: u64,
}

impl Interleaving {
    /// Pages that lie in order.
    pub const NONE: Self = Self { parts: 1, unit_pages: 1 };

    /// Returns the place of a page in the address space, among `pages` pages.
    pub fn place_of(self, page: u64, pages: u64) -> u64 {
        self.map(page, pages, |unit, rows| unit % rows * self.parts + unit / rows)
    }

    /// Returns the page at a place.
    pub fn page_at(self, place: u64, pages: u64) -> u64 {
        self.map(place, pages, |unit, rows| unit % self.parts * rows + unit / self.parts)
    }

    /// Maps the number of a page or place, below `pages`, by its unit and the units that each part
    /// has.
    fn map(self, number: u64, pages: u64, map: impl Fn(u64, u64) -> u64) -> u64 {
        let rows = pages / self.unit_pages / self.parts;
        let (unit, within) = (number / self.unit_pages, number % self.unit_pages);
        match unit < rows * self.parts {
            true => map(unit, rows) * self.unit_pages + within,
            false => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: two parts of three units of two pages take turns, and pages of a unit stay together;
    /// the thirteenth page is behind them.
    #[test]
    fn parts_take_turns() {
        let pages = Interleaving { parts: 2, unit_pages: 2 };
        let places: Vec<_> = (0..13).map(|page| pages.place_of(page, 13)).collect();
        assert_eq!(places, [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11, 12]);
    }

    proptest! {
        /// Goal: each page has a place of its own, where it is found again.
        #[test]
        fn each_page_has_its_own_place(
            pages in 1_u64..300, unit_pages in 1_u64..9, parts in 1_u64..400,
        ) {
            let interleaving = Interleaving { parts, unit_pages };
            let mut places: Vec<u64> =
                (0..pages).map(|page| interleaving.place_of(page, pages)).collect();
            for (page, &place) in (0..).zip(&places) {
                prop_assert_eq!(interleaving.page_at(place, pages), page);
            }
            places.sort_unstable();
            prop_assert_eq!(places, (0..pages).collect::<Vec<_>>());
        }
    }
}
