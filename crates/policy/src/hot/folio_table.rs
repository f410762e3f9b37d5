//! The folios of named pages, by address.

use super::FolioLocation;

/// Folios in ascending order of their address; none overlaps another. There may be as many as a
/// process has pages, so they are one array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolioTable {
    page_bytes: u64,
    folios: Vec<FolioLocation>,
}

impl FolioTable {
    /// Returns a table of folios in ascending order of their address. A folio that follows itself
    /// is entered once.
    pub fn from_sorted(page_bytes: u64, mut folios: Vec<FolioLocation>) -> Self {
        folios.dedup_by_key(|folio| folio.address);
        debug_assert!(folios.is_sorted_by_key(|folio| folio.address));
        Self { page_bytes, folios }
    }

    /// Returns the folio that holds an address, if it is in the table.
    pub fn folio_at(&self, address: u64) -> Option<FolioLocation> {
        let before = self.folios.partition_point(|folio| folio.address <= address);
        let folio = self.folios[..before].last()?;
        let bytes = u64::from(folio.pages).saturating_mul(self.page_bytes);
        (address - folio.address < bytes).then_some(*folio)
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;

    use super::*;

    /// Goal: every address of a folio leads to it, and those between folios to none.
    #[test]
    fn an_address_leads_to_its_folio() {
        let folio = |address, pages| FolioLocation { address, pages, node: NodeId(1) };
        let listed = [folio(10, 2), folio(10, 2), folio(40, 1)];
        let table = FolioTable::from_sorted(10, listed.into());
        for (address, expected) in [
            (9, None),
            (10, Some(folio(10, 2))),
            (29, Some(folio(10, 2))), // two pages of ten bytes end at 30
            (30, None),
            (49, Some(folio(40, 1))),
            (50, None),
        ] {
            assert_eq!(table.folio_at(address), expected, "{address}");
        }
    }
}
