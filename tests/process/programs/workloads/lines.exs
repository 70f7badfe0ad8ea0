# What became of each test, in a line of its own; several at a time, for ExUnit's own trace runs one.
defmodule Lines do
  use GenServer
  def init(_), do: {:ok, nil}

  def handle_cast({:test_finished, test}, state) do
    IO.puts("@@ #{inspect(test.module)} #{test.name} => #{if test.state, do: elem(test.state, 0), else: "ok"}")
    {:noreply, state}
  end

  def handle_cast(_, state), do: {:noreply, state}
end

ExUnit.configure(formatters: [Lines], seed: 0, max_cases: 4)
