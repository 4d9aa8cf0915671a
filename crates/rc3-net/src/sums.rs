//! Counters that are added up field by field.

/// Implements `AddAssign` for a struct, by these fields: all that it has.
macro_rules! sums {
    ($name:ident: $($field:ident),+) => {
        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = Self { $($field: self.$field + other.$field),+ };
            }
        }
    };
}

pub(crate) use sums;
