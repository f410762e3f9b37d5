//! The matrix of distances between nodes whose ids may have holes.

use serde::Serialize;

use crate::NodeId;

/// The distance between each pair of nodes, in the units of the ACPI SLIT: 10 is local. The matrix
/// need not be symmetric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Distances {
    nodes: Vec<NodeId>,
    rows: Vec<Vec<u32>>,
}

/// The error of a matrix that does not fit its nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistanceError {
    /// The number of rows is not the number of nodes.
    #[error("{found} rows of distances for {nodes} nodes; give one row for each node")]
    Rows {
        /// The number of rows.
        found: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// A row is too short or too long.
    #[error("row {row} has {found} distances for {nodes} nodes; give one for each node")]
    Columns {
        /// The row, counted from 0.
        row: usize,
        /// The number of distances in the row.
        found: usize,
        /// The number of nodes.
        nodes: usize,
    },
}

impl Distances {
    /// Returns a matrix whose rows and columns are in ascending order of `nodes`.
    pub fn new(
        nodes: impl IntoIterator<Item = NodeId>,
        rows: Vec<Vec<u32>>,
    ) -> Result<Self, DistanceError> {
        let nodes: Vec<_> = nodes.into_iter().collect();
        if rows.len() != nodes.len() {
            return Err(DistanceError::Rows { found: rows.len(), nodes: nodes.len() });
        }
        match rows.iter().position(|row| row.len() != nodes.len()) {
            Some(row) => {
                Err(DistanceError::Columns { row, found: rows[row].len(), nodes: nodes.len() })
            }
            None => Ok(Self { nodes, rows }),
        }
    }

    /// Returns a matrix from a function of two positions in the list of nodes.
    pub fn from_rule(
        nodes: impl IntoIterator<Item = NodeId>,
        rule: impl Fn(usize, usize) -> u32,
    ) -> Self {
        let nodes: Vec<_> = nodes.into_iter().collect();
        let count = nodes.len();
        let rows = (0..count).map(|from| (0..count).map(|to| rule(from, to)).collect()).collect();
        Self { nodes, rows }
    }

    /// Returns the nodes, in the order of rows and columns.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Iterates over the rows: a node and the distances from it.
    pub fn rows(&self) -> impl Iterator<Item = (NodeId, &[u32])> {
        self.nodes.iter().copied().zip(self.rows.iter().map(Vec::as_slice))
    }

    /// Returns the distance from `from` to `to`.
    pub fn get(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let row = self.nodes.binary_search(&from).ok()?;
        let column = self.nodes.binary_search(&to).ok()?;
        Some(self.rows[row][column])
    }

    /// Iterates over the distances between different nodes.
    pub fn remote(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().enumerate().flat_map(|(from, row)| {
            row.iter().enumerate().filter(move |&(to, _)| to != from).map(|(_, &far)| far)
        })
    }

    /// Returns true if the matrix is symmetric.
    pub fn is_symmetric(&self) -> bool {
        let count = self.nodes.len();
        (0..count).all(|a| (0..a).all(|b| self.rows[a][b] == self.rows[b][a]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_must_fit_its_nodes() {
        let nodes = [NodeId(0), NodeId(4)];
        assert_eq!(
            Distances::new(nodes, vec![vec![10, 20]]),
            Err(DistanceError::Rows { found: 1, nodes: 2 })
        );
        assert_eq!(
            Distances::new(nodes, vec![vec![10, 20], vec![10]]),
            Err(DistanceError::Columns { row: 1, found: 1, nodes: 2 })
        );
        let fits = Distances::new(nodes, vec![vec![10, 15], vec![25, 10]]).unwrap();
        assert_eq!(fits.get(NodeId(4), NodeId(0)), Some(25));
        assert!(!fits.is_symmetric());
        assert_eq!(fits.remote().collect::<Vec<_>>(), [15, 25]);
    }
}
