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
    SystemRandom::new().fill(&mut bytes).map_err(|_| TransferError::Local {
        what: "get random numbers".to_owned(),
        error: io::Error::other("the system has none"),
    })?;
    Ok(bytes)
}
