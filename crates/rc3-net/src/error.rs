//! Errors by operation. The names are quinn's, so that programs written for quinn match on the same.

mod connect;
mod datagram;
mod keying_material;
mod receive;
mod send;

pub use self::{
    connect::ConnectError,
    datagram::SendDatagramError,
    keying_material::ExportKeyingMaterialError,
    receive::{ReadError, ReadExactError, ReadToEndError, ResetError},
    send::{StoppedError, WriteError},
};
