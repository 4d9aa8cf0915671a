//! Random bytes.

use crate::error::{Error, Result};

/// Unpredictable bytes.
///
/// # Errors
/// When the system provides none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let failed = |_| Error::local("get random numbers", "the system has none");
    rc3_core::crypto_provider().secure_random.fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
