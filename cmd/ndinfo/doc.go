// Command ndinfo shows the capabilities of this machine's adapters. Its subcommand doctor finds out what prevents ND from running,
// and suggests remedies.
package main
