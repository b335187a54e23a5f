//! The library's own server on port 0 with a clock moved by hand, one file per resource and verb.

mod ping;
mod server;
mod smtp;
