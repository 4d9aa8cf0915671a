//! Types that print some of their fields: the others are secret, or have nothing to print.

/// Implements `Debug` for a struct, by these fields.
macro_rules! shows {
    ($name:ident: $($field:ident),*) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use shows;
