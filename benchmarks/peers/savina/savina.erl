%% Erlang's side of the whole programs: plain processes, the same messages as ours.
%% Run as: erl -noshell -run savina main PROGRAM cpu|wall N
%% Every program prints one line of JSON: its rate by the clock that was asked for, beside CPU time the wall clock's.
%% Each sets itself up, and returns the fun to be timed; that returns how much was done, with a fun that looks into
%% the result if that takes messages of its own. A wrong result is a bad match.
-module(savina).
-export([main/1, draw/1, tally/2]).

main([Program, Clock, Size]) ->
    N = list_to_integer(Size),
    try rates(program(Program, N)) of
        {_, Wall} when Clock =:= "wall" ->
            io:format("{\"value\": ~p}~n", [Wall]), halt(0);
        {Cpu, Wall} when Clock =:= "cpu" ->
            io:format("{\"value\": ~p, \"parts\": {\"per second by the wall clock\": ~p}}~n", [Cpu, Wall]), halt(0)
    catch
        Class:Reason ->
            io:format(standard_error, "~p: ~p~n", [Class, Reason]), halt(1)
    end.

program("ring", N)         -> savina_messages:ring(N);
program("big", N)          -> savina_messages:big(N);
program("chameneos", N)    -> savina_messages:chameneos(N);
program("philosophers", N) -> savina_messages:philosophers(N);
program("counting", N)     -> savina_messages:counting(N);
program("throughput", N)   -> savina_messages:throughput(N);
program("create", N)       -> savina_lives:create(N);
program("fibonacci", N)    -> savina_lives:fibonacci(N);
program("bank", N)         -> savina_services:bank(N);
program("dictionary", N)   -> savina_services:dictionary(N);
program("buffer", N)       -> savina_services:buffer(N);
program("tree", N)         -> savina_lives:tree(N);
program("pairs", N)        -> savina_messages:circles(64, 2, N);
program("rings", N)        -> savina_messages:circles(100, 100, N).

rates(Work) ->
    erlang:garbage_collect(),
    {Before, _} = erlang:statistics(runtime),
    Start = erlang:monotonic_time(nanosecond),
    Done = Work(),
    Wall = erlang:monotonic_time(nanosecond) - Start,
    {After, _} = erlang:statistics(runtime),
    Count = case Done of
        {Some, Check} -> Check(), Some;
        Some -> Some
    end,
    % In milliseconds: a work that took none of them would be no measurement.
    {Count * 1.0e3 / max(After - Before, 1), Count * 1.0e9 / Wall}.

%% The same numbers as in the other languages.
draw(Seed) -> (Seed * 1309 + 13849) band 65535.

%% The sum of so many reports to this process.
tally(0, Sum) -> Sum;
tally(Left, Sum) -> receive {report, Number} -> tally(Left - 1, Sum + Number) end.
