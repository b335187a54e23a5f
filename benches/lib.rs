//! Empty: a package of benches needs a library. The benches are beside this file;
//! `cargo bench --bench load` runs one of them.
