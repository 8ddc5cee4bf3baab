//! How device state becomes bytes: a version byte, then the postcard encoding of one struct.
//!
//! The version stands outside the codec, so that another version's bytes are never guessed at.
//! Whoever changes a `State` struct moves its version on.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Why a device's state can't be restored. The file's fault (or another build's).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// Written by another version of the device.
    #[error("{device}: state of version {found}, but this build reads version {expected}")]
    Version {
        /// The device's name.
        device: &'static str,
        /// The version found.
        found: u8,
        /// The version that this build reads.
        expected: u8,
    },
    /// Cut short or damaged.
    #[error("{device}: state can't be decoded ({cause})")]
    Decode {
        /// The device's name.
        device: &'static str,
        /// The decoder's message.
        cause: postcard::Error,
    },
    /// Longer than the state is.
    #[error("{device}: {count} bytes left over behind the state")]
    LeftOver {
        /// The device's name.
        device: &'static str,
        /// Number of bytes.
        count: usize,
    },
    /// Decoded, but this device can't be in such a state.
    #[error("{device}: impossible state: {what}")]
    Impossible {
        /// The device's name.
        device: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}

/// Encodes `state` behind its version.
pub(crate) fn save<S: Serialize>(version: u8, state: &S) -> Vec<u8> {
    // The flavour allocates and the structs are plain data, so encoding has no way to fail; were it
    // to, the empty rest is refused by `restore`.
    postcard::to_extend(state, vec![version]).unwrap_or_default()
}

/// Decodes what [`save`] gave, to the last byte; `check` names what is impossible, if anything is.
pub(crate) fn restore<S: DeserializeOwned>(
    device: &'static str,
    version: u8,
    bytes: &[u8],
    check: impl FnOnce(&S) -> Result<(), &'static str>,
) -> Result<S, DeviceError> {
    let Some((&found, body)) = bytes.split_first() else {
        return Err(DeviceError::Decode {
            device,
            cause: postcard::Error::DeserializeUnexpectedEnd,
        });
    };
    if found != version {
        return Err(DeviceError::Version {
            device,
            found,
            expected: version,
        });
    }
    let (state, rest) =
        postcard::take_from_bytes(body).map_err(|cause| DeviceError::Decode { device, cause })?;
    if !rest.is_empty() {
        return Err(DeviceError::LeftOver {
            device,
            count: rest.len(),
        });
    }
    check(&state).map_err(|what| DeviceError::Impossible { device, what })?;
    Ok(state)
}
