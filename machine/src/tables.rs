//! Which spaces have translations made from which table pages: what makes the TLBs coherent.
//!
//! A *user* of a table page is a space in which the page serves a range of virtual addresses at a level. In
//! one space, one place (level and range) is served by one table page at a time.

use std::collections::BTreeMap;

/// A space that has translations made from a table page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// A code space, else a data space.
    pub code: bool,
    /// Its id.
    pub space: u8,
    /// log2 of what one entry covers; 12: a leaf table.
    pub shift: u8,
    /// Virtual base of what the table covers.
    pub base: u64,
}

/// Users of one table page.
#[derive(Debug, PartialEq, Eq)]
pub enum Users {
    /// These.
    Some {
        /// The users.
        list: Vec<User>,
        /// Stores to the table since it was last noted.
        stores: u8,
    },
    /// So many that a change drops everything: only hostile tables get here.
    All,
}

const MAX_USERS: usize = 256;
const RECENT: usize = 1024;

/// The register of table pages and their users.
pub struct Tables {
    pages: BTreeMap<u64, Users>,
    places: BTreeMap<User, u64>,
    /// Registrations seen lately, so that a walk over known tables costs a look at each.
    recent: Box<[Option<(User, u64)>; RECENT]>,
}

fn slot(user: &User) -> usize {
    let place = user.base >> 12
        ^ u64::from(user.shift) << 50
        ^ u64::from(user.space) << 42
        ^ u64::from(user.code) << 41;
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % RECENT
}

impl Tables {
    /// Without any table.
    pub fn new() -> Tables {
        Tables {
            pages: BTreeMap::new(),
            places: BTreeMap::new(),
            recent: Box::new([None; RECENT]),
        }
    }

    /// A walk for `user` read table `page`. True if that was not known.
    pub fn note(&mut self, user: User, page: u64) -> bool {
        let recent = slot(&user);
        if self.recent[recent] == Some((user, page)) {
            return false;
        }
        self.recent[recent] = Some((user, page));
        if let Some(old) = self.places.insert(user, page) {
            if old == page {
                return false;
            }
            self.unlist(old, &user);
        }
        match self.pages.entry(page).or_insert_with(|| Users::Some {
            list: Vec::new(),
            stores: 0,
        }) {
            Users::Some { list, stores } if list.len() < MAX_USERS => {
                list.push(user);
                *stores = 0;
            }
            users => *users = Users::All,
        }
        true
    }

    fn unlist(&mut self, page: u64, user: &User) -> bool {
        let Some(Users::Some { list, .. }) = self.pages.get_mut(&page) else {
            return false;
        };
        list.retain(|u| u != user);
        let unused = list.is_empty();
        if unused {
            self.pages.remove(&page);
        }
        unused
    }

    fn forget(&mut self, user: &User) {
        let recent = slot(user);
        if self.recent[recent].is_some_and(|(u, _)| u == *user) {
            self.recent[recent] = None;
        }
    }

    /// Takes a table page's users off the register.
    pub fn take(&mut self, page: u64) -> Option<Users> {
        let users = self.pages.remove(&page)?;
        if let Users::Some { list, .. } = &users {
            for user in list {
                self.places.remove(user);
                self.forget(user);
            }
        }
        Some(users)
    }

    /// The users of a table page that is about to be stored to.
    pub fn users_stored(&mut self, page: u64) -> Option<&Users> {
        let users = self.pages.get_mut(&page)?;
        if let Users::Some { stores, .. } = users {
            *stores = stores.saturating_add(1);
        }
        Some(users)
    }

    /// Takes `user`'s space off all tables below its level that serve the `len` bytes from `base`. Calls `unused` with each
    /// page that has no user left.
    pub fn abandon(&mut self, user: User, base: u64, len: u64, mut unused: impl FnMut(u64)) {
        let mut shift = user.shift;
        while shift > 12 {
            shift -= 9;
            let first = User { shift, base, ..user };
            let last = User {
                shift,
                base: base.wrapping_add(len - 1).max(base),
                ..user
            };
            let gone: Vec<(User, u64)> = self.places.range(first..=last).map(|(u, p)| (*u, *p)).collect();
            for (user, page) in gone {
                self.places.remove(&user);
                self.forget(&user);
                if self.unlist(page, &user) {
                    unused(page);
                }
            }
        }
    }

    /// Takes everything off the register; yields the table pages.
    pub fn clear(&mut self) -> Vec<u64> {
        self.places.clear();
        self.recent.fill(None);
        std::mem::take(&mut self.pages).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(space: u8, shift: u8, base: u64) -> User {
        User {
            code: false,
            space,
            shift,
            base,
        }
    }

    #[test]
    fn an_abandoned_subtree_frees_the_tables_that_nobody_else_uses() {
        let mut tables = Tables::new();
        tables.note(user(0, 30, 0), 1);
        tables.note(user(0, 21, 0), 2);
        tables.note(user(0, 12, 0x20_0000), 3);
        tables.note(user(1, 12, 0x20_0000), 3);
        tables.note(user(0, 12, 0x40_0000), 4);
        tables.note(user(0, 12, 0x4000_0000), 5);
        let mut free = Vec::new();
        tables.abandon(user(0, 30, 0), 0, 1 << 30, |page| free.push(page));
        free.sort_unstable();
        assert_eq!(free, [2, 4]);
        let left = Users::Some {
            list: vec![user(1, 12, 0x20_0000)],
            stores: 1,
        };
        assert_eq!(tables.users_stored(3), Some(&left));
        assert!(
            tables.note(user(0, 12, 0x20_0000), 3),
            "what was abandoned is new again"
        );
    }

    #[test]
    fn a_table_taken_off_is_noted_again() {
        let mut tables = Tables::new();
        assert!(tables.note(user(0, 12, 0), 7));
        assert!(!tables.note(user(0, 12, 0), 7));
        assert_eq!(
            tables.take(7),
            Some(Users::Some {
                list: vec![user(0, 12, 0)],
                stores: 0
            })
        );
        assert!(tables.note(user(0, 12, 0), 7));
    }
}
