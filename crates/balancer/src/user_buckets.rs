//! The budgets of users for what is moved for the groups that they made by calls.

use std::collections::BTreeMap;

use super::token_bucket::TokenBucket;

/// A budget for each user other than root who made groups.
#[derive(Debug, Default)]
pub struct UserBuckets(BTreeMap<u32, TokenBucket>);

impl UserBuckets {
    /// Adds the tokens for `elapsed_ns`. Users who are not among `users` lose what they have.
    pub fn fill(
        &mut self,
        users: impl Iterator<Item = u32>,
        bytes_per_s: u64,
        elapsed_ns: u64,
        interval_ns: u64,
    ) {
        let mut before = std::mem::take(&mut self.0);
        for user in users {
            self.0.entry(user).or_insert_with(|| {
                let mut bucket = before.remove(&user).unwrap_or_default();
                bucket.fill(bytes_per_s, elapsed_ns, interval_ns);
                bucket
            });
        }
    }

    /// Returns how many bytes may be moved now for a user; any number for nobody.
    pub fn bytes(&self, user: Option<u32>) -> u64 {
        let Some(user) = user else { return u64::MAX };
        self.0.get(&user).copied().unwrap_or_default().bytes()
    }

    /// Subtracts bytes that were moved for a user.
    pub fn spend(&mut self, user: Option<u32>, bytes: u64) {
        let bucket = user.and_then(|user| self.0.get_mut(&user));
        bucket.into_iter().for_each(|bucket| bucket.spend(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Goal: each user has a budget of its own, filled once a round however many groups it has, and
    /// a user who comes back has nothing saved up.
    #[test]
    fn users_have_budgets_of_their_own() {
        let mut buckets = UserBuckets::default();
        buckets.fill([5, 5, 6].into_iter(), 100, S, S);
        buckets.spend(Some(5), 70);
        buckets.spend(None, 1000);
        assert_eq!(
            [Some(5), Some(6), Some(7), None].map(|it| buckets.bytes(it)),
            [30, 100, 0, u64::MAX]
        );
        buckets.fill([6].into_iter(), 100, S, S);
        buckets.fill([5].into_iter(), 100, S / 2, S);
        assert_eq!([Some(5), Some(6)].map(|it| buckets.bytes(it)), [50, 0]);
    }
}
