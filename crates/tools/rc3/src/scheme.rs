//! What a comparison compares.

use serde::{Deserialize, Serialize};

/// The two schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// QUIC alone: CUBIC with quinn-proto's own window growth.
    Plain,
    /// The same primary loop with the RLP loop beside it.
    Rc3,
}

impl Scheme {
    /// Both, in the order in which they take turns.
    pub const BOTH: [Self; 2] = [Self::Plain, Self::Rc3];

    /// The short name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Rc3 => "rc3",
        }
    }
}
