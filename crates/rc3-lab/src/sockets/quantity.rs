//! Quantities on command lines.

use rc3_core::units::Rate;
use rc3_text::units::{self, UnitError};

/// A rate such as `100mbit`.
///
/// # Errors
/// If it is none.
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    units::parse_rate(text).map(Rate::from)
}
