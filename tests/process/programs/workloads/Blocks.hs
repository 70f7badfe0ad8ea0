-- Threads on all capabilities with maps, byte strings, stable names and blocks from malloc; every line depends on the numbers alone.
module Main where

import Control.Concurrent
import Control.Monad
import qualified Data.ByteString.Char8 as B
import qualified Data.Map.Strict as M
import Data.Bits
import Data.List (foldl', sort)
import Data.Word
import Foreign

hash :: String -> Word64
hash = foldl' (\h c -> (h `xor` fromIntegral (fromEnum c)) * 1099511628211) 14695981039346656037

blocks :: Int -> IO Int
blocks n = do
  kept <- forM [1 .. 200] $ \k -> do
    p <- mallocBytes (k * n) :: IO (Ptr Word8)
    fillBytes p (fromIntegral (k .&. 255)) (k * n)
    q <- if even k then reallocBytes p (k * n * 2) else return p
    return (q, k)
  sums <- forM kept $ \(p, k) -> do
    v <- peekByteOff p (k * n - 1) :: IO Word8
    free p
    return (fromIntegral v)
  return (sum sums)

work :: Int -> Int -> IO String
work thread n = do
  let keys = [(k * 7919 * thread + n) `mod` 4093 | k <- [1 .. 2000]]
      table = M.fromListWith (++) [(B.pack (show k), [k * n]) | k <- keys]
      text = B.intercalate (B.pack ",") [B.append k (B.pack (show (sum v))) | (k, v) <- M.toList table]
  sums <- blocks n
  pinned <- return (B.length (B.copy text))
  return ("thread" ++ show thread ++ "_round" ++ show n ++ "=" ++ show (hash (B.unpack text)) ++ "_" ++ show sums ++ "_" ++ show pinned)

main :: IO ()
main = do
  results <- forM [1 .. 4] $ \thread -> do
    done <- newEmptyMVar
    _ <- forkIO (mapM (work thread) [1 .. 80] >>= \ls -> length (concat ls) `seq` putMVar done ls)
    return done
  lines' <- mapM takeMVar results
  mapM_ putStrLn (sort (concat lines'))
  putStrLn ("factorial=" ++ show (hash (show (product [1 .. 3000 :: Integer]))))
