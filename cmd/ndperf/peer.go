package main

import "github.com/spf13/cobra"

func newServer() *cobra.Command { return &cobra.Command{Use: "server"} }
func newClient() *cobra.Command { return &cobra.Command{Use: "client"} }
