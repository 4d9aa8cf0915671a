//! Random bytes.

use std::io;

use super::error::TransferError;

/// Unpredictable bytes.
///
/// # Errors
/// When the system provides none.
pub fn random<const N: usize>() -> Result<[u8; N], TransferError> {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; N];
    let failed = |_| TransferError::local("get random numbers", io::Error::other("the system has none"));
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
