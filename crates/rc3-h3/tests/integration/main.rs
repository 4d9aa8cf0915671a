//! HTTP/3 over rc3 and over quinn, by the traits of `h3`.

mod common;
mod endings;
mod floods;
mod hostile;
mod intermediary;
mod malformed;
mod requests;
